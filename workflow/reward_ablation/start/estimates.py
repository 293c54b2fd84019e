"""Estimates of how long runs and evaluations will take, from the records of earlier ones.

The plan and the start print these hours, and `budget` spends them. `decide` counts by `Pace` the steps that are left.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_ablation.spec.run import Layout
from reward_ablation.start.history import History, read_record
from reward_ablation.study.specs_of_config import layout_of
from reward_ablation.study.study import Run, Study

#: Name of the base model, where the other models have the names of their runs.
BASE_MODEL = "base"
#: Kinds of evaluations, in the words of the plan.
BASE, FINAL, KEPT = KINDS = ("of the base model", "of trained runs", "of models that runs kept")


@dataclass(frozen=True)
class Estimate:
    """Time that runs will take."""

    hours: float  # wall hours of all runs with an estimate, one after the other
    device_hours: float  # GPU hours of these runs; for runs on the CPU, hours summed over threads
    steps: int  # steps that these runs still have to make
    unknown: int  # number of runs without an estimate
    earlier: int  # number of finished runs of these layouts, of any arm, also where only the same arm's runs count


class Pace:
    """Seconds of a step and steps of earlier runs of the same layout: the same arm's median, else that of all arms."""

    def __init__(self, history: History):
        self.records: dict[Layout, dict[str, list[dict[str, Any]]]] = {}
        for arm, records in history.arms.items():
            for record in records.values():
                layout = _layout_in(record.get("spec"))
                if layout is not None:
                    self.records.setdefault(layout, {}).setdefault(arm, []).append(record)
        self.seconds = cache(lambda arm, layout: self._median(arm, layout, seconds_per_step))
        self.steps = cache(lambda arm, layout: self._median(arm, layout, lambda record: record.get("steps")))

    def _median(self, arm: str, layout: Layout, of_record: Any) -> float | None:
        comparable = self.records.get(layout, {})
        records = comparable.get(arm) or chain.from_iterable(comparable.values())
        known = [value for value in map(of_record, records) if value is not None]
        return statistics.median(known) if known else None

    def steps_of(self, run: Run) -> int | None:
        """Optimiser steps of a run: `max_steps`, else the steps of earlier runs; None where there are none."""
        max_steps = run.arm_spec.training.get("max_steps", -1)
        steps = max_steps if max_steps > 0 else self.steps(run.arm, layout_of(run.launch))
        return None if steps is None else round(steps)

    def estimate(self, runs: Iterable[tuple[Run, int | None]]) -> Estimate:
        """Estimate the time of runs, each given with its number of steps left (None where not known)."""
        hours, device_hours, steps, unknown = 0.0, 0.0, 0, 0
        layouts = set()
        for run, left in runs:
            layout = layout_of(run.launch)
            layouts.add(layout)
            seconds = self.seconds(run.arm, layout)
            if left is None or seconds is None:
                unknown += 1
                continue
            hours += seconds * left / 3600
            devices = run.launch.all_gpus or run.launch.process_count * run.launch.threads
            device_hours += seconds * left / 3600 * devices
            steps += left
        earlier = sum(len(records) for layout in layouts for records in self.records.get(layout, {}).values())
        return Estimate(hours, device_hours, steps, unknown, earlier)


def _layout_in(spec: Any) -> Layout | None:
    """The layout of a record's spec; None for a spec that another version wrote and this one cannot read."""
    try:
        return Layout.model_validate({name: spec[name] for name in Layout.model_fields if name in spec})
    except (TypeError, ValidationError):
        return None


def seconds_per_step(record: dict[str, Any]) -> float | None:
    """Wall seconds per step of a finished run, including its start-up; None for a run without steps."""
    attempts = record.get("attempts") or [
        {"from_step": 0, "to_step": record.get("steps", 0), "wall_seconds": record.get("wall_seconds", 0)}
    ]
    steps = sum(attempt["to_step"] - attempt["from_step"] for attempt in attempts)
    return sum(attempt["wall_seconds"] for attempt in attempts) / steps if steps > 0 else None


@dataclass(frozen=True)
class Evaluation:
    """The job that makes one file of answers."""

    kind: str  # one of `KINDS`
    run: str  # the run's name; empty for the base model
    dataset: str  # name and key of the evaluation set
    answers: str  # path of the file, relative to the results folder


@dataclass(frozen=True)
class Evaluations:
    """How many evaluations a start makes, and an estimate of their hours."""

    counts: dict[str, int]  # number of files of answers by kind
    device_hours: float  # GPU hours of the evaluations that have an estimate; CPU hours where a study has no GPU
    unknown: int  # number of evaluations without an estimate
    earlier: int  # number of earlier evaluations that the estimate is based on

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def evaluation_of(answers: str, model: str) -> Evaluation:
    """The evaluation that makes a file of answers; `model` is the name of a run, or `base`."""
    name = answers.rpartition("/")[2].removesuffix(".parquet")
    dataset = name.removesuffix(".steps")
    if model == BASE_MODEL:
        return Evaluation(BASE, "", dataset, answers)
    return Evaluation(FINAL if name == dataset else KEPT, model, dataset, answers)


def estimate_evaluations(study: Study, evaluations: Iterable[Evaluation], pace: Pace) -> Evaluations:
    """Count evaluations, and estimate their hours by earlier ones of the same set, for today's number of answers."""
    evaluations = list(evaluations)
    earlier = {dataset: _seconds_per_model(study, dataset) for dataset in {each.dataset for each in evaluations}}
    seconds, unknown = 0.0, 0
    for evaluation in evaluations:
        per_model, models = earlier[evaluation.dataset], _model_count(study, evaluation, pace)
        if not per_model or models is None:
            unknown += 1
        else:
            seconds += statistics.median(per_model) * models
    devices = 1 if study.config.launch.gpus else study.config.launch.threads
    return Evaluations(
        counts=dict(Counter(each.kind for each in evaluations)),
        device_hours=seconds * devices / 3600,
        unknown=unknown,
        earlier=sum(map(len, earlier.values())),
    )


def _model_count(study: Study, evaluation: Evaluation, pace: Pace) -> int | None:
    """Number of models that an evaluation judges; None where not known. The last step makes the final model."""
    if evaluation.kind != KEPT:
        return 1
    steps = pace.steps_of(study.runs[evaluation.run])
    return None if steps is None else (steps - 1) // study.config.keep_models


def _seconds_per_model(study: Study, dataset: str) -> list[float]:
    """Wall seconds that one model would take for a set, by evaluations under these settings, else under others."""
    device = "cuda" if study.config.launch.gpus else "cpu"
    today = _answers_per_problem(study.config.evaluation.model_dump())

    def seconds_in(folder: Path) -> Iterator[float]:
        for path in (*folder.glob(f"base/{dataset}*.json"), *folder.glob(f"*/seed*/{dataset}*.json")):
            record = read_record(path.parent, path.name) or {}
            with suppress(KeyError, TypeError, ZeroDivisionError):  # a record without the values says nothing
                answers = len(record["models"]) * _answers_per_problem(record["spec"]["evaluation"])
                if record["spec"]["device"] == device and record["wall_seconds"] > 0:
                    yield record["wall_seconds"] / answers * today

    others = (study.results / "evaluation").glob("*")
    present = [*seconds_in(study.results / study.answers_folder)]
    return present or [seconds for folder in others for seconds in seconds_in(folder)]


def _answers_per_problem(evaluation: dict[str, Any]) -> int:
    return evaluation["greedy"] + evaluation["samples"]
