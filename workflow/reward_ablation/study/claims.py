"""The claims of a study, and the record of when each was declared.

`study.resolve` reads the config's claims here, a start records them (`start.declarations`), and `analysis.claims`
judges them. Runs test a claim that was declared before the first run, not one that they suggested (`study.primary`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from reward_ablation.config.designs import arms_here
from reward_ablation.config.sections.questions import ClaimOnArms, Direction, Mode
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.canonical import key_of
from reward_ablation.study.partial import listed
from reward_ablation.study.primary import MOST_NAMED, Question, check_metric, declared_now, metrics_here
from reward_ablation.study.standing import Began, Recorded, Since, is_former, recovered, when

#: Name of the model before training. A claim may compare an arm with it, and no arm may have this name.
BASE = "base"


class Claim(Recorded):
    """A claim with defaults filled in. Records of earlier versions lack `measured`, or `arm_keys` and `measured`."""

    name: str
    says: str
    source: str | None = None
    metric: str
    arm: str
    against: str
    direction: Direction
    margin: float
    dataset: str
    mode: Mode
    arm_keys: dict[str, str] = Field({})  # keys of its arms, by name
    measured: dict[str, str] = Field({})  # keys of what its other names stand for (`specs_of_config.keys_of_measured`)

    @property
    def key(self) -> str:
        """First 8 hex digits of the digest, without the claim's name, words and source. An arm counts by its spec."""
        without = {"name", "says", "source", "arm_keys"} | (set() if self.measured else {"measured"})
        content = self.model_dump(include={*Claim.model_fields} - without)
        return key_of(content | {key: self.arm_keys.get(content[key], content[key]) for key in ("arm", "against")})


class DeclaredClaim(Claim, Since):
    """A claim with the time when it was first recorded in the study's folder."""

    declared: str


class ClaimsOnRecord(Recorded):
    """The claims in `study.json`: the present claims, and claims that were taken out after runs had begun."""

    claims: list[DeclaredClaim] = Field([])
    withdrawn_claims: list[DeclaredClaim] = Field([])

    def content(self) -> dict[str, Any]:
        """Keys and values for `study.json`; empty for a study that never had claims."""
        return {name: value for name, value in self.model_dump().items() if value}


def recorded_claims(written: Any) -> ClaimsOnRecord:
    """The claims in the content of a `study.json`; no claims if they cannot be read."""
    try:
        return ClaimsOnRecord.model_validate(written)
    except ValidationError:
        return ClaimsOnRecord()


def as_on_record(claims: Sequence[Claim], before: ClaimsOnRecord, began: Began) -> list[Claim]:
    """The claims, without `measured` or `arm_keys` where an earlier version recorded a claim so, in any record."""
    on_record = {claim.key for claim in [*before.claims, *before.withdrawn_claims]}
    found = []
    for claim in claims:
        lacking = (("measured",), ("arm_keys", "measured"))
        formers = [claim.model_copy(update={field: {} for field in fields}) for fields in lacking]
        known = (each for each in formers if is_former("claims", claim.key, each.key, on_record, began))
        found.append(next(known, claim))
    return found


def with_recovered(before: ClaimsOnRecord, claims: Sequence[Claim], began: Began) -> ClaimsOnRecord:
    """The record, with claims of the config that a lost `study.json` had, as the records of runs say."""
    known = {claim.key for claim in [*before.claims, *before.withdrawn_claims]}
    times = [(claim, recovered("claims", claim.key, began())) for claim in claims if claim.key not in known]
    found = [DeclaredClaim(**claim.model_dump(), **since.since) for claim, since in times if since]
    return before.model_copy(update={"claims": [*before.claims, *found]}) if found else before


def declared_claims(claims: Sequence[Claim], before: ClaimsOnRecord, runs: Path) -> ClaimsOnRecord:
    """The record to write: a claim on record or put back keeps its time; one taken out after runs is withdrawn."""
    keys = {claim.key for claim in claims}
    times = {claim.key: claim.since for claim in [*before.withdrawn_claims, *before.claims]}
    withdrawn = before.withdrawn_claims
    if keys != {claim.key for claim in before.claims}:
        now = declared_now(runs)
        withdrawn = [*withdrawn, *(before.claims if now.runs_then else [])]
        times |= dict.fromkeys(keys - times.keys(), now.since)
    return ClaimsOnRecord(
        claims=[DeclaredClaim(**claim.model_dump(), **times[claim.key]) for claim in claims],
        withdrawn_claims=[claim for claim in withdrawn if claim.key not in keys],
    )


def since_words(record: ClaimsOnRecord, before: ClaimsOnRecord) -> str:
    """When claims were declared, in words. Those that are not on record in `before` are still to be declared."""
    on_record = {claim.key for claim in before.claims + before.withdrawn_claims}
    names: dict[str, list[str]] = {}
    for claim in record.claims:
        since = f"declared {claim.declared}" if claim.key in on_record else "to be declared at the next start"
        names.setdefault(f"{since}, {when(claim.runs_then)}", []).append(claim.name)
    parts = [f"{listed(of_time, MOST_NAMED)}; {since}" for since, of_time in names.items()]
    if record.withdrawn_claims:
        parts.append(
            f"{listed([claim.name for claim in record.withdrawn_claims], MOST_NAMED)}; taken out after there were runs"
        )
    return "; ".join(parts)


def claims_of(
    study: StudyConfig, keys: Mapping[str, str], measured: Callable[[str, str], dict[str, str]], question: Question
) -> list[Claim]:
    """The checked claims of a config. `keys` are keys of arms; `measured` gives the keys of a data set and a metric."""
    claims: list[Claim] = []
    arms = list(keys)
    for name, written in study.claims.items():
        claim = _claim(study, name, written, arms, question)
        twin = next((other.name for other in claims if other.key == claim.key), None)
        if twin is not None:
            raise ValueError(f"claims.{name}: judges the same as claims.{twin}; take one of them out")
        claims.append(claim)
    own = [{arm: keys[arm] for arm in (claim.arm, claim.against) if arm in keys} for claim in claims]
    return [
        claim.model_copy(update={"arm_keys": of_claim, "measured": measured(claim.dataset, claim.metric)})
        for claim, of_claim in zip(claims, own, strict=True)
    ]


def _claim(study: StudyConfig, name: str, written: ClaimOnArms, arms: Sequence[str], question: Question) -> Claim:
    """One claim, checked."""
    where = f"claims.{name}"
    against = written.against or study.baseline or arms[0]
    dataset, mode = written.dataset or question.dataset, written.mode or question.mode
    if written.arm not in arms:
        raise ValueError(f"{where}.arm: unknown arm '{written.arm}'; {arms_here(written.arm, arms)}")
    if against not in (*arms, BASE):
        raise ValueError(f"{where}.against: unknown arm '{against}'; {arms_here(against, [*arms, BASE])}")
    if written.arm == against:
        raise ValueError(f"{where}: compares {against} with itself; name two arms that differ, or against: base")
    metrics = metrics_here(study, where, dataset, mode)
    check_metric(where, mode, written.metric, metrics)
    settings = written.model_dump(include={"says", "source", "metric", "arm", "direction", "margin"})
    return Claim(name=name, against=against, dataset=dataset, mode=mode, **settings)
