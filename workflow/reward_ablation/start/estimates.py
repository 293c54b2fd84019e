"""How long runs will take, estimated from the wall time of earlier runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from pydantic import ValidationError

from reward_ablation.spec.run import Layout
from reward_ablation.start.history import History
from reward_ablation.study.run import Run
from reward_ablation.study.specs_of_config import layout_of


@dataclass(frozen=True)
class Estimate:
    """Time that runs will take."""

    #: Wall hours of all runs with an estimate, one after the other.
    hours: float
    #: GPU hours of these runs; for runs on the CPU, hours summed over threads.
    device_hours: float
    #: Steps that these runs still have to make.
    steps: int
    #: Number of runs without an estimate.
    unknown: int
    #: Number of finished runs that the estimate is based on.
    earlier: int


class Pace:
    """Seconds of a step and number of steps in earlier runs: the median of the same arm's runs, else of all arms'.

    Only runs with the same layout count. Others say nothing about the time.
    """

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
