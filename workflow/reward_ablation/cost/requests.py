"""Requests to endpoints by a run's components, and by metrics about the run's answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from reward_ablation.analysis.runs import Requests
from reward_ablation.analysis.study_file import Section, StudyFile, StudyRun


class _Record(Section):
    """The record beside a file of scores, as `reward_ablation.scores` writes it."""

    requests: dict[str, Requests] = Field(default_factory=dict)


def request_sums(whose: str, asked: Iterable[Requests]) -> dict[str, int]:
    """Sum requests over all models that were asked, as columns of the table `runs` by name.

    The names begin with `whose`, such as judge or metric.
    """
    models = list(asked)
    return {f"{whose}_{name}": sum(getattr(model, name) for model in models) for name in Requests.model_fields}


def requests_of_metrics(study: StudyFile, run: StudyRun, root: Path) -> dict[str, int]:
    """Requests of the study's own metrics about the answers of a run's models, from the records beside the scores.

    A metric that asks no endpoint has no record.
    """
    files = (of(dataset, run.name) for dataset in study.datasets for of in (study.scores_file, study.kept_scores_file))
    return request_sums("metric", [requests for file in files if file for requests in _recorded(root / file)])


def _recorded(scores: Path) -> Iterator[Requests]:
    try:
        record = _Record.model_validate_json(scores.with_suffix(".json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return
    yield from record.requests.values()
