"""The primary question, the claims and the looks, which `plan` prints and a start records before its jobs.

A look is a test after a planned number of seeds. A study is sequential if its config has `seeds.looks`: arms get
more seeds while a contrast of theirs is open, that is, found neither different nor equivalent, with a look left.
`study.primary`, `study.claims` and `study.looks` say what is on record of each; here they are brought together and
written to `study.json`. The rules `describe` and `report_pages` run this module as a command: `main` makes the whole
study from its config for both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.report.pages import ReportPages
from reward_ablation.start.decide import with_diverged
from reward_ablation.study.claims import ClaimsOnRecord, declared_claims, recorded_claims, since_words
from reward_ablation.study.looks import Sequential, changed_text, declared_looks, looks_text, recorded_looks
from reward_ablation.study.primary import Primary, arms_since, declaration_text, declare_primary, recorded_primary
from reward_ablation.study.resolve import resolve
from reward_ablation.study.standing import Standing, as_runs_say
from reward_ablation.study.study import Study, described_runs, diverged_runs
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json


class Declarations:
    """What a study declares: as on record where nothing changed, with its time, else what the next start records."""

    def __init__(self, study: Study):
        self.study = study
        self.on_record = study.on_record
        self.runs = study.results / "runs"

    @cached_property
    def primary(self) -> Primary:
        return declare_primary(self.study.question, self.on_record.primary, self.runs)

    @cached_property
    def claims(self) -> ClaimsOnRecord:
        return declared_claims(self.study.claims, self.on_record.claims, self.runs)

    @cached_property
    def looks(self) -> Sequential | None:
        """Record of the looks; None if the study was never sequential."""
        return declared_looks(self.study.looks, self.on_record.looks, self.runs)

    @property
    def look_is_due(self) -> bool:
        """Whether this study is sequential and a look is left to take. `start.reruns` then has `describe` run again."""
        return self.study.looks is not None and self.looks is not None and self.looks.next_look is not None

    # What is declared and not in `study.json`. Records of runs do not count here. Keys are compared: digests of what a
    # question, a claim or a plan says. `study.primary`, `study.claims` and `study.looks` say which words do not count.

    @property
    def lacks_primary(self) -> bool:
        """Whether `study.json` lacks the primary question."""
        recorded = recorded_primary(self.study.described)
        return recorded is None or not recorded.declares(self.study.question) or recorded.arms != self.primary.arms

    @property
    def lacks_claims(self) -> bool:
        """Whether `study.json` lacks a claim, or has one that was taken out."""
        recorded = recorded_claims(self.study.described).claims
        return {claim.key for claim in recorded} != {claim.key for claim in self.study.claims}

    @property
    def lacks_looks(self) -> bool:
        """Whether `study.json` lacks the looks."""
        recorded = recorded_looks(self.study.described)
        return self.study.looks is not None and (recorded is None or recorded.key != self.study.looks.key)

    def content(self) -> dict[str, Any]:
        """The content of `study.json`: the summary, what is declared, the runs of each arm, and which diverged."""
        looks = {} if self.looks is None else {"sequential": self.looks.model_dump()}
        declared = {"primary": self.primary.model_dump(), **self.claims.content(), **looks, "digest": self.study.digest}
        declared |= arms_since(self.study.question, self.primary)
        return {**self.study.summary, **declared, "runs": described_runs(self.study), **diverged_runs(self.study)}

    # Lines of the plan. `began` has what stood declared when each finished run began; if empty, no run is asked.

    def primary_line(self, began: Sequence[Standing | None] = ()) -> str:
        """The primary question, and since when it is declared, as it will be after the next start."""
        study, known, primary = self.study, self.on_record.primary, self.primary
        coming = known is None or known.digest != primary.digest
        words = declaration_text(as_runs_say(primary, "primary", primary.digest, began), coming)
        # Default contrasts name every arm, except arms added later. Contrasts in the config may leave out any arm.
        added = [arm for arm in study.arms if study.question.arm_keys and arm not in study.question.arm_keys]
        is_default = study.config.primary.contrasts is None
        exploratory = (
            f"; exploratory, as added after runs had begun: {', '.join(added)}" if added and is_default else ""
        )
        return f"primary question: {study.question}; {words}{exploratory}"

    def claims_line(self, began: Sequence[Standing | None] = ()) -> str:
        """The names of the study's claims, and since when they are declared; empty for a study without claims."""
        claims = [as_runs_say(claim, "claims", claim.key, began) for claim in self.claims.claims]
        words = since_words(self.claims.model_copy(update={"claims": claims}), self.on_record.claims)
        return f"claims: {words}" if words else ""

    def looks_line(self, began: Sequence[Standing | None] = ()) -> str:
        """Which look is next, and which contrasts are open, as after the next start; empty without looks."""
        study, record, known = self.study, self.looks, self.on_record.looks
        if record is None:
            return ""
        coming = study.looks is not None and (known is None or known.key != study.looks.key)
        as_known = as_runs_say(record, "sequential", record.key, began)
        return f"sequential seeds: {looks_text(as_known, study.question.contrasts, coming)}"


def record_question(study: Study, trains: bool, describes: bool, tell: Callable[[str], None]) -> None:
    """Write `study.json` before the first job if the question, a claim or the looks are not recorded yet.

    To be called in `onstart`. `trains` says whether this start trains a run, and `describes` whether one of its jobs
    writes `study.json`. If neither, nothing happens: no run begins before the next start. `tell` gets a line if the
    question is not known to be declared before the first run, another if a claim is not, or if one was taken out after
    there were runs, and one if the plan of looks was changed after its first look.
    """
    now = Declarations(study)
    if not (now.lacks_primary or now.lacks_claims or now.lacks_looks) or not (trains or describes):
        return
    write_json(now.content(), study.description)
    if changed := changed_text(now.looks) if now.lacks_looks and now.looks else "":
        tell(f"sequential seeds: {changed}")
    if now.lacks_primary and now.primary.runs_then != 0:
        tell(f"primary question: {study.question}; {declaration_text(now.primary)}")
    record = now.claims
    if now.lacks_claims and (record.withdrawn_claims or any(claim.runs_then != 0 for claim in record.claims)):
        tell(f"claims: {since_words(record, record)}")  # the record is written, so it also says what is on record


def describe_study(study: Study, path: Path) -> None:
    """Write `study.json`, and in a sequential study the next look into it; recorded looks are not judged anew."""
    now = Declarations(study)
    content = now.content()
    write_json(content, path)
    print("\n".join([f"arms: {len(study.arms)}, runs: {len(study.runs)}", *study.warnings]))
    if study.looks is None:
        return
    record = now.looks
    if record is not None and record.next_look is not None:
        # Imported only where a look is taken, because planning must stay quick. The look is made from the file as it is
        # now, and then added to it. It is not made if provenance is mixed and the config refuses that.
        from reward_ablation.analysis.study_file import read_study
        from reward_ablation.design.looks import with_next_look

        record = with_next_look(read_study(path), path.parent, study.config.mixed_provenance == "refuse")
        write_json({**content, "sequential": record.model_dump()}, path)
    print(f"sequential seeds: {looks_text(record, study.question.contrasts)}")


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.start.declarations")
    parser.add_argument("job", choices=["describe", "pages"])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--planned", required=True, help="digest of the keys for which the workflow was started")
    parser.add_argument("--study", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    config = load_json(arguments.config.read_bytes())
    study = with_diverged(resolve(config, str(arguments.config), Path.cwd()))
    if study.digest_of_keys != arguments.planned:
        raise StudyError("a file of the study has changed since the workflow was started; start it again")
    if arguments.job == "describe":
        describe_study(study, arguments.output)
    else:
        ReportPages(config, study).write(arguments.output, arguments.study)


if __name__ == "__main__":
    main()
