"""`reward-ablation preview`: the tables, figures and summary of the finished part of a study, while the study goes on.

The folder `preview` of the results gets a `study.json` with the finished runs alone, and links to the study's files. A
second Snakemake, with its own folder and records, runs the rules of tables, figures and the summary there. It runs the
same commands as the study does, and only those whose inputs changed since the last preview. A preview reads the
study's own files and never writes them. It takes none of the study's locks, and leaves the declared question as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.start.decide import Decisions
from reward_ablation.start.declarations import Declarations
from reward_ablation.start.described import DescribedStudy, make_tables, write_if_changed
from reward_ablation.study.partial import missing_lines, part_of
from reward_ablation.study.primary import Primary, arms_since
from reward_ablation.study.run_folder import DESCRIPTION, LOCK, PREVIEW, RECORD, evaluation_file
from reward_ablation.study.study import Study, described_runs, diverged_runs
from reward_ablation.system.errors import storage_errors
from reward_ablation.system.locks import hold_lock
from reward_ablation.system.plain_values import printable
from reward_ablation.system.started_in import VARIABLE

#: Folders of the study that the commands of the tables read.
READ = ("benchmarks", "data", "evaluation", "models", "runs", "scores")
#: The warning that is printed, and written above the summary.
CAUTION = (
    "Estimates, intervals and p-values change as runs finish. A preview is no look of a sequential rule: do not stop "
    "the study or conclude anything because of it."
)
#: An evaluation set is left out if it would keep less than this share of the runs of the best set. A free choice.
SHARE_OF_RUNS = 0.5


@dataclass(frozen=True)
class Preview:
    study: Study
    finished: FinishedPart
    home: Path  # folder of the Snakefile
    cores: int  # how many cores the preview may use on this machine

    @property
    def folder(self) -> Path:
        """The preview's folder, the only folder that a preview writes to."""
        return self.study.results / PREVIEW

    def make(self, tell: Callable[[str], None]) -> int:
        """Make what changed since the last preview; return 1 where a table, figure or the summary failed, else 0."""
        name = f"study {self.study.config.name}"
        if not self.finished.runs:
            trained = len(self.finished.trained)
            trained_runs = f"{trained} run{'s are' if trained > 1 else ' is'} trained"
            why = f"{trained_runs}, and none is evaluated beside the base model" if trained else "no run is trained"
            tell(f"{name}: nothing to preview: {why}")
            return 0
        content, missing = self._content()
        tell(f"{name}: preview of {content['preview']['runs']} of {content['preview']['planned']} runs")
        for line in missing:
            tell(f"- {printable(line)}")
        tell(CAUTION)
        with storage_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            shown = Path(self.study.config.root, PREVIEW).as_posix()  # as the user can type it
            busy = f"{shown}: {{holder}} makes a preview there; wait until it is done"
            with hold_lock(self.folder / LOCK, busy) as lock:
                for folder in READ:
                    with suppress(FileExistsError):
                        (self.folder / folder).symlink_to(Path("..", folder), target_is_directory=True)
                write_if_changed(content, self.folder / DESCRIPTION)
                os.environ[VARIABLE] = str(Path.cwd())  # an own method of combination has its path from here
                return make_tables(self.folder, shown, self._rules_know(), self.home, self.cores, tell, lock)

    def _content(self) -> tuple[dict[str, Any], list[str]]:
        """`study.json` of the finished part, and lines on what is missing. A preview never declares the question."""
        study, question, now = self.study, self.study.question, Declarations(self.study)
        primary = Primary(**question.model_dump(), digest=question.key) if now.lacks_primary else now.primary
        claims = [claim.model_dump() for claim in study.claims]
        runs = described_runs(study)
        whole = {
            **study.summary,
            "primary": primary.model_dump(),
            **arms_since(question, primary),
            "claims": claims,
            "runs": runs,
            **diverged_runs(study),
        }
        names = study.dataset_names
        datasets = [names[dataset] for dataset in self.finished.datasets]
        shown = [f"runs/{run}" for run in self.finished.runs]
        part = part_of(whole, shown, datasets)
        missing = missing_lines(whole, part, [run for run in self.finished.trained if f"runs/{run}" not in shown])
        preview = {"runs": len(shown), "planned": len(study.runs), "missing": missing, "caution": CAUTION}
        return {**part, "preview": preview}, missing

    def _rules_know(self) -> DescribedStudy:
        """What the rules of tables and figures need to know of the finished part."""
        study, finished = self.study, self.finished
        root, models = study.results, ("base", *finished.runs)
        scores = [
            file
            for file in study.scores
            if any(f"/{model}/{dataset}." in file for model in models for dataset in finished.datasets)
        ]
        return DescribedStudy(
            answers_folder=study.answers_folder,
            runs=finished.runs,
            datasets=finished.datasets,
            keeping_runs=[run for run in finished.runs if run in study.keeping_runs],
            scores=scores,
            trained_on=[file for file in study.trained_on if (root / file).is_file()],
            asked_tables=[rule for rule in study.asked_tables if rule != "claims"],
            mixed_provenance=study.config.mixed_provenance,
            figures=study.config.figures.model_dump(),
        )


@dataclass(frozen=True)
class FinishedPart:
    """Runs and evaluation sets for which all files exist that the tables are made from."""

    runs: list[str]  # names of the trained runs whose answers to all of `datasets` exist, with their scores
    datasets: list[str]  # by name and key, those that the base model and all of `runs` have answered
    trained: list[str]  # names of all trained runs


def finished_part(decisions: Decisions) -> FinishedPart:
    """The finished part of a study, by the files on disk, without what the next start would make again."""
    study, records = decisions.study, decisions.history.records
    trained = [
        name for name, each in decisions.runs.items() if not each.trains and not each.diverged and records.get(name)
    ]
    evaluated = {}
    for dataset in study.datasets:
        models = {model for model in ("base", *trained) if _is_evaluated(decisions, model, dataset)}
        if "base" in models and len(models) > 1 and decisions.exists(evaluation_file(dataset)):
            evaluated[dataset] = models - {"base"}
    names = study.dataset_names
    shown, runs = _largest_part(evaluated, [data for data in evaluated if names[data] == study.question.dataset])
    ordered = [dataset for dataset in study.datasets if dataset in shown]
    return FinishedPart([run for run in trained if run in runs], ordered, trained)


def _is_evaluated(decisions: Decisions, model: str, dataset: str) -> bool:
    """Whether a model's answers to an evaluation set exist, with their scores, and need not be made again."""
    record = [f"runs/{model}/{RECORD}"] if model != "base" else []
    return all(
        answers not in decisions.answers_again
        and all(decisions.exists(file) for file in [answers, *record, *([scores] if scores else [])])
        for answers, scores in _files(decisions.study, model, dataset)
    )


def _files(study: Study, model: str, dataset: str) -> Iterator[tuple[str, str | None]]:
    """The files of a model's answers to an evaluation set, each with its scores in a study with metrics of its own."""
    for kind in ["", *([".steps"] if model in study.keeping_runs else [])]:
        name = f"{model}/{dataset}{kind}.parquet"
        yield f"{study.answers_folder}/{name}", study.scores_folder and f"{study.scores_folder}/{name}"


def _largest_part(evaluated: dict[str, set[str]], preferred: list[str]) -> tuple[set[str], set[str]]:
    """The set with the most runs (or `preferred`), others that keep half of them, and the runs that answered all."""
    shown: set[str] = set()
    runs: set[str] = set()
    ordered = sorted(evaluated, key=lambda dataset: (-len(evaluated[dataset]), dataset not in preferred))
    for dataset in ordered:
        both = runs & evaluated[dataset] if shown else evaluated[dataset]
        if len(both) >= SHARE_OF_RUNS * len(evaluated[ordered[0]]):
            shown.add(dataset)
            runs = both
    return shown, runs
