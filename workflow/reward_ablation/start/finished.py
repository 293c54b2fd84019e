"""The finished part of a study that may still go on: the runs that are trained, and evaluated on common sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reward_ablation.start.decide import Decisions
from reward_ablation.study.run_folder import RECORD
from reward_ablation.study.study import Study

#: An evaluation set is left out where adding the set would keep fewer than this share of the runs of the best set.
SHARE_OF_RUNS = 0.5


@dataclass(frozen=True)
class FinishedPart:
    """Runs and evaluation sets for which all files exist that the tables are made from."""

    runs: list[str]  # names of the trained runs whose answers to all of `datasets` exist, with their scores
    datasets: list[str]  # by name and key, those that the base model and all of `runs` have answered
    trained: list[str]  # names of all trained runs


def finished_part(decisions: Decisions) -> FinishedPart:
    """The finished part of a study, by the files on disk.

    Runs and answers that the next start would make again are left out. The workflow moves a file into place once the
    file is complete, so every file that exists can be read.
    """
    study, records = decisions.study, decisions.history.records
    trained = [
        name for name, each in decisions.runs.items() if not each.trains and not each.diverged and records.get(name)
    ]
    evaluated = {}
    for dataset in study.datasets:
        models = {model for model in ("base", *trained) if _is_evaluated(decisions, model, dataset)}
        if "base" in models and len(models) > 1 and decisions.exists(f"data/evaluation/{dataset}.parquet"):
            evaluated[dataset] = models - {"base"}
    names = dict(zip(study.datasets, study.dataset_names, strict=True))
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
    """Choose evaluation sets, and return them with the runs that have answered all of them.

    The set with the most runs is always chosen; among sets with equally many runs, one of `preferred`. Another set is
    added if at least half of the first set's runs have answered all chosen sets.
    """
    shown: set[str] = set()
    runs: set[str] = set()
    ordered = sorted(evaluated, key=lambda dataset: (-len(evaluated[dataset]), dataset not in preferred))
    for dataset in ordered:
        both = runs & evaluated[dataset] if shown else evaluated[dataset]
        if len(both) >= SHARE_OF_RUNS * len(evaluated[ordered[0]]):
            shown.add(dataset)
            runs = both
    return shown, runs
