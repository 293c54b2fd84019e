"""What is finished of a study that may still go on: runs that are trained and evaluated, on which evaluation sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.start.answers_time import are_in_order
from reward_ablation.start.history import read_history
from reward_ablation.start.plan import plan_of
from reward_ablation.start.reruns import Reruns
from reward_ablation.study.run_folder import RECORD
from reward_ablation.study.study import Study

#: An evaluation set is left out where it would leave fewer than this share of the runs of the best set.
SHARE_OF_RUNS = 0.5


@dataclass(frozen=True)
class FinishedPart:
    """Runs and evaluation sets with all files that tables are made of.

    Attributes
    ----------
    runs : list of str
        Names of the runs that are trained and have answers, and scores, to all of `datasets`.
    datasets : list of str
        Evaluation sets by name and key, to which the base model and these runs have answers.
    trained : list of str
        Names of all trained runs.
    """

    runs: list[str]
    datasets: list[str]
    trained: list[str]


def finished_part(study: Study, reruns: Reruns) -> FinishedPart:
    """The finished part of a study, by what is on disk; runs and answers that a start would make again are not in it.

    Files are moved into place when they are whole, so that a file that is there can be read.
    """
    root = study.root / study.config.root
    history = read_history(root / "runs", study.runs)
    planned = plan_of(study, history, reruns.present, reruns.code_counts).runs
    trained = [each.run.name for each in planned if not each.trains and history.records.get(each.run.name)]
    evaluated = {}
    for dataset in study.datasets:
        models = {model for model in ("base", *trained) if _is_evaluated(study, root, model, dataset, reruns)}
        if "base" in models and len(models) > 1 and (root / "data" / "evaluation" / f"{dataset}.parquet").is_file():
            evaluated[dataset] = models - {"base"}
    names = dict(zip(study.datasets, study.dataset_names, strict=True))
    shown, runs = _largest_part(evaluated, [data for data in evaluated if names[data] == study.question.dataset])
    ordered = [dataset for dataset in study.datasets if dataset in shown]
    return FinishedPart([run for run in trained if run in runs], ordered, trained)


def _is_evaluated(study: Study, root: Path, model: str, dataset: str, reruns: Reruns) -> bool:
    """Whether a model has answers to an evaluation set, and scores of these, that are not to be made again."""
    made = [root / "runs" / model / RECORD] if model != "base" else []
    for answers, scores in _files(study, model, dataset):
        if answers in reruns.answers_again:
            return False
        if not are_in_order(root / answers, made, [root / scores] if scores else []):
            return False
    return True


def _files(study: Study, model: str, dataset: str) -> Iterator[tuple[str, str | None]]:
    """Answers of a model to an evaluation set, and the scores of these in a study with metrics of its own."""
    for kind in ["", *([".steps"] if model in study.keeping_runs else [])]:
        name = f"{model}/{dataset}{kind}.parquet"
        yield f"{study.answers_folder}/{name}", study.scores_folder and f"{study.scores_folder}/{name}"


def _largest_part(evaluated: dict[str, set[str]], first: list[str]) -> tuple[set[str], set[str]]:
    """Evaluation sets and the runs that have answers to all of them.

    The set with the most runs is in it, of equal sets one of `first`. Others are added while at least half of these
    runs stay.
    """
    shown: set[str] = set()
    runs: set[str] = set()
    ordered = sorted(evaluated, key=lambda dataset: (-len(evaluated[dataset]), dataset not in first))
    for dataset in ordered:
        both = runs & evaluated[dataset] if shown else evaluated[dataset]
        if len(both) >= SHARE_OF_RUNS * len(evaluated[ordered[0]]):
            shown.add(dataset)
            runs = both
    return shown, runs
