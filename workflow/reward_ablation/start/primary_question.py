"""The primary question and the claims, which `reward-ablation plan` prints and a start records before its first run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reward_ablation.study.claims import declared_claims, read_recorded_claims, recorded_claims, since_words
from reward_ablation.study.looks import changed_text
from reward_ablation.study.primary import declaration_text
from reward_ablation.study.standing import Standing, as_runs_say
from reward_ablation.study.study import Study


def primary_line(study: Study, began: Sequence[Standing | None] = ()) -> str:
    """The primary question, and since when it is declared, as it will be after the next start.

    `began` has what stood declared when each of the study's runs began.
    """
    known, primary = study.known_primary, study.primary
    coming = known is None or known.digest != primary.digest
    words = declaration_text(as_runs_say(primary, "primary", primary.digest, began), coming)
    added = [arm for arm in study.arms if study.question.arm_keys and arm not in study.question.arm_keys]
    is_default = study.config.primary.contrasts is None
    exploratory = f"; exploratory, as added after runs had begun: {', '.join(added)}" if added and is_default else ""
    return f"primary question: {study.question}; {words}{exploratory}"


def claims_line(study: Study, began: Sequence[Standing | None] = ()) -> str:
    """The names of the study's claims, and since when they are declared; empty for a study without claims.

    `began` has what stood declared when each of the study's runs began.
    """
    before = study.known_claims
    coming = declared_claims(study.claims, before, study.description.with_name("runs"))
    claims = [as_runs_say(claim, "claims", claim.key, began) for claim in coming.claims]
    words = since_words(coming.model_copy(update={"claims": claims}), before)
    return f"claims: {words}" if words else ""


def declares_claims(study: Study) -> bool:
    """Whether the study has claims that are not recorded yet, or lacks recorded ones."""
    return {claim.key for claim in recorded_claims(study.described).claims} != {claim.key for claim in study.claims}


def record_question(study: Study, trains: bool, describes: bool, tell: Callable[[str], None]) -> None:
    """Write `study.json` before the first job if the question, a claim or the looks are not recorded yet.

    To be called in `onstart`. `trains` says whether this start trains a run, and `describes` whether one of its jobs
    writes `study.json`. If neither, nothing happens. `tell` gets a line if the question is declared after there were
    runs, another if claims are, and one if the plan of looks was changed after its first look.
    """
    if not (study.declares or declares_claims(study) or study.declares_looks) or not (trains or describes):
        return
    primary = study.write_description(study.description)
    if changed := changed_text(study.sequential) if study.declares_looks and study.sequential else "":
        tell(f"sequential seeds: {changed}")
    if study.declares and primary.runs_then != 0:
        tell(f"primary question: {study.question}; {declaration_text(primary)}")
    record = read_recorded_claims(study.description)
    if declares_claims(study) and (record.withdrawn_claims or any(claim.runs_then != 0 for claim in record.claims)):
        tell(f"claims: {since_words(record, record)}")
