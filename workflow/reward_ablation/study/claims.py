"""The claims of a study, and the record of when each was declared.

As with the primary question (`study.primary`), a claim that was declared before the first run is tested by the runs,
and a claim that the runs suggested is not. So `study.json` says of each claim since when it is declared. A claim that
is taken out once there are runs stays on record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from reward_ablation.config.sections.claims import Direction
from reward_ablation.config.sections.primary import Mode
from reward_ablation.study.canonical import key_of
from reward_ablation.study.primary import MOST_NAMED, finished_runs, utc_now


class Claim(BaseModel):
    """A claim with all defaults filled in; keys of later versions are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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

    @property
    def key(self) -> str:
        """First 8 hex digits of a digest of what is judged: all but the claim's name, words and source."""
        return key_of(self.model_dump(include={*Claim.model_fields} - {"name", "says", "source"}))


class DeclaredClaim(Claim):
    """A claim with the time when it was first recorded in the study's folder.

    Attributes
    ----------
    declared : str
        UTC, ISO 8601.
    runs_then : int
        Finished runs in the study's folder at that time; 0 where the claim came before the first run.
    """

    declared: str
    runs_then: int = 0


class ClaimsOnRecord(BaseModel):
    """What `study.json` says of claims: those of today, and those that were taken out after there were runs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    claims: list[DeclaredClaim] = []
    withdrawn_claims: list[DeclaredClaim] = []

    def content(self) -> dict[str, Any]:
        """Keys of `study.json`; none in a study that never had claims."""
        return {name: value for name, value in self.model_dump().items() if value}


def recorded_claims(written: Any) -> ClaimsOnRecord:
    """The claims in the content of a `study.json`; none where they cannot be read."""
    try:
        return ClaimsOnRecord.model_validate(written)
    except ValidationError:
        return ClaimsOnRecord()


def read_recorded_claims(path: Path) -> ClaimsOnRecord:
    """The claims in a `study.json`; none where there is no such file, or none that can be read."""
    try:
        return recorded_claims(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return ClaimsOnRecord()


def declared_claims(claims: Sequence[Claim], before: ClaimsOnRecord, runs: Path) -> ClaimsOnRecord:
    """The record to write: a claim on record keeps its time, another one is declared at this moment.

    Parameters
    ----------
    claims : sequence of Claim
        Those of the config.
    before : ClaimsOnRecord
        What is on record. A claim that was taken out and is put back has its former time.
    runs : Path
        Folder of the study's runs. A claim that is taken out after some of them were trained is kept as withdrawn.
    """
    keys = {claim.key for claim in claims}
    there = 0 if keys == {claim.key for claim in before.claims} else finished_runs(runs)
    withdrawn = [*before.withdrawn_claims, *(before.claims if there else [])]
    times = {claim.key: _since(claim) for claim in [*before.withdrawn_claims, *before.claims]}
    if keys - times.keys():
        now = {"declared": utc_now(), "runs_then": there}
        times |= dict.fromkeys(keys - times.keys(), now)
    return ClaimsOnRecord(
        claims=[DeclaredClaim(**claim.model_dump(), **times[claim.key]) for claim in claims],
        withdrawn_claims=[claim for claim in withdrawn if claim.key not in keys],
    )


def _since(claim: DeclaredClaim) -> dict[str, Any]:
    return claim.model_dump(include={"declared", "runs_then"})


def since_words(record: ClaimsOnRecord, before: ClaimsOnRecord) -> str:
    """Since when claims are declared, in words: `a, b; declared 2026-01-31T12:00:00Z, before the first run`.

    Parameters
    ----------
    record : ClaimsOnRecord
        As `declared_claims` gives it.
    before : ClaimsOnRecord
        What is on record already: other claims are still to be declared.
    """
    known = {claim.key for claim in before.claims + before.withdrawn_claims}
    names: dict[str, list[str]] = {}
    for claim in record.claims:
        since = f"declared {claim.declared}" if claim.key in known else "to be declared at the next start"
        runs = f"{claim.runs_then} {'run was' if claim.runs_then == 1 else 'runs were'} there"
        when = f"after {runs}" if claim.runs_then else "before the first run"
        names.setdefault(f"{since}, {when}", []).append(claim.name)
    parts = [f"{_named(of_time)}; {since}" for since, of_time in names.items()]
    if record.withdrawn_claims:
        parts.append(f"{_named(claim.name for claim in record.withdrawn_claims)}; taken out after there were runs")
    return "; ".join(parts)


def _named(names: Iterable[str]) -> str:
    """The first names, and how many others there are."""
    every = list(names)
    more = len(every) - MOST_NAMED
    return ", ".join(every[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
