"""The primary question, the claims and the looks, which `plan` prints and a start records before its jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reward_ablation.study.claims import declared_claims, read_recorded_claims, recorded_claims, since_words
from reward_ablation.study.looks import changed_text, looks_text, read_recorded_looks
from reward_ablation.study.primary import declaration_text
from reward_ablation.study.standing import Standing, as_runs_say
from reward_ablation.study.study import Study
from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json


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


def describe_study(study: Study, path: str | Path, log: str | Path) -> None:
    """Write `study.json`, and in a sequential study the next look into it. All answers of the look exist by now.

    Recorded looks stay as they are. If the rule runs again, none of them is judged anew.
    """
    file = Path(path)
    study.describe(file, log)
    if study.looks is None:
        return
    record = read_recorded_looks(file)
    if record is not None and record.next_look is not None:
        # Imported only where a look is taken, because planning must stay quick.
        from reward_ablation.analysis.study_file import read_study
        from reward_ablation.design.looks import with_next_look

        record = with_next_look(read_study(file), file.parent, study.config.mixed_provenance == "refuse")
        write_json({**load_json(file.read_bytes()), "sequential": record.model_dump()}, file)
    with Path(log).open("a") as lines:
        lines.write(f"sequential seeds: {looks_text(record, study.question.contrasts)}\n")


def looks_line(study: Study, began: Sequence[Standing | None] = ()) -> str:
    """Which look is next, and which contrasts are open, as after the next start; empty for a study without looks.

    `began` has what stood declared when each of the study's runs began.
    """
    record = study.sequential
    if record is None:
        return ""
    coming = study.looks is not None and (study.known_looks is None or study.known_looks.key != study.looks.key)
    as_known = as_runs_say(record, "sequential", record.key, began)
    return f"sequential seeds: {looks_text(as_known, study.question.contrasts, coming)}"
