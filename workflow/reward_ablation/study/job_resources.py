"""Snakemake's resources of a study's jobs: GPUs, and the resources of the config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from reward_ablation.config.sections.launch import Launch
from reward_ablation.study.run import Run

#: Resources that Snakemake converts to other units.
SIZES = ("mem_mb", "disk_mb")


@dataclass(frozen=True)
class JobResources:
    """Snakemake's resources of jobs, by name."""

    launch: Launch  # of the study
    runs: dict[str, Run]  # by name

    @property
    def of_evaluation(self) -> dict[str, int | str]:
        """Resources of an evaluation: one GPU, or none."""
        return {"gpu": min(1, self.launch.gpus)}

    @cached_property
    def of_run(self) -> dict[str, int | Callable[[Any], int | str | None]]:
        """Resources of a training job, each as a function of the wildcards.

        A resource that an arm does not set is None, which means not set for Snakemake, or 0 where Snakemake needs a
        number. A number that is the same for all runs is not a function: Snakemake would call the function for each
        job, which takes a second for 5,000 runs.
        """
        of_runs = {name: self.of_one_run(run) for name, run in self.runs.items()}
        names = dict.fromkeys(name for own in of_runs.values() for name in own)
        resources: dict[str, int | Callable[[Any], int | str | None]] = {}
        for name in names:
            by_run = {run: own.get(name, 0 if name in SIZES else None) for run, own in of_runs.items()}
            value, *others = set(by_run.values())
            resources[name] = value if not others and isinstance(value, int) else partial(_of_wildcards, by_run)
        return resources

    def of_one_run(self, run: Run) -> dict[str, int | str]:
        """Resources of the training job of one run."""
        launch = run.launch
        return {"gpu": launch.all_gpus, "nodes": launch.nodes, **launch.resources}


def _of_wildcards(by_run: dict[str, int | str | None], wildcards: Any) -> int | str | None:
    return by_run.get(wildcards.run)
