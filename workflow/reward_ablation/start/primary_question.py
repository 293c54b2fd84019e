"""The primary question and claims in `snakemake plan` and at a start that trains: on record before the first run."""

from __future__ import annotations

from collections.abc import Callable

from reward_ablation.study.claims import declared_claims, read_recorded_claims, recorded_claims, since_words
from reward_ablation.study.looks import changed_text
from reward_ablation.study.primary import told
from reward_ablation.study.study import Study


def primary_line(study: Study) -> str:
    """What the study was made to find out, and since when that is declared, as it will be after the next start."""
    return f"primary question: {study.question}; {told(study.primary, coming=study.declares)}"


def claims_line(study: Study) -> str:
    """The names of the study's claims, and since when they are declared; empty where there are none."""
    before = recorded_claims(study.described)
    coming = declared_claims(study.claims, before, study.description.with_name("runs"))
    words = since_words(coming, before)
    return f"claims: {words}" if words else ""


def declares_claims(study: Study) -> bool:
    """Whether claims are not on record yet, or are taken out."""
    return {claim.key for claim in recorded_claims(study.described).claims} != {claim.key for claim in study.claims}


def record_question(study: Study, trains: bool, describes: bool, tell: Callable[[str], None]) -> None:
    """Write `study.json` before the first job where the question, a claim or looks are not on record, in `onstart`.

    Parameters
    ----------
    study : Study
    trains, describes : bool
        Whether this start trains a run, and whether one of its jobs writes `study.json`.
    tell : callable
        Gets a line where the question is declared after there were runs, and one where claims are.
    """
    if not (study.declares or declares_claims(study) or study.declares_looks) or not (trains or describes):
        return
    primary = study.write_description(study.description)
    if changed := changed_text(study.sequential) if study.declares_looks and study.sequential else "":
        tell(f"sequential seeds: {changed}")
    if study.declares and primary.runs_then:
        tell(f"primary question: {study.question}; {told(primary)}")
    record = read_recorded_claims(study.description)
    if declares_claims(study) and (record.withdrawn_claims or any(claim.runs_then for claim in record.claims)):
        tell(f"claims: {since_words(record, record)}")
