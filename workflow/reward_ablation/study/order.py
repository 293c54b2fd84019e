"""Order of a study's jobs, chosen so that the first comparisons of arms are finished early.

Among the jobs that are ready, Snakemake starts those with the highest priority. No key, record or rerun depends on the
priority.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

from reward_ablation.study.study import Study


class Order:
    """Priorities of jobs: first the jobs that many others wait for, then evaluations, then training."""

    def __init__(self, study: Study):
        self.study = study
        self.first = 2 * len(study.runs) + 2  # priority of the jobs that fetch models and prepare data

    def training(self, wildcards: Any) -> int:
        """Priority of the training of the run that the wildcard names."""
        return self.of_runs.get(wildcards.run, 0)

    def evaluation(self, wildcards: Any) -> int:
        """Priority of an evaluation, or of the scoring of answers.

        It is above all training, and highest for the base model. The wildcard that names the model is `run` or `model`.
        The evaluation of the base model has neither.
        """
        run = wildcards.get("run", wildcards.get("model"))
        return len(self.study.runs) + self.of_runs.get(run, len(self.study.runs) + 1)

    @cached_property
    def of_runs(self) -> dict[str, int]:
        """Priority of the training of each run by the run's name, from 1.

        The first seed of all arms comes before the second seed of any arm. Among the first seeds, as among the second
        ones, the baseline comes first, because the other arms are compared with it. The rest is in the study's order.
        """
        study = self.study
        baseline = study.folders[study.keys[study.config.baseline or next(iter(study.arms))]]
        seeds_before: Counter[str] = Counter()
        ranks = {}
        for number, run in enumerate(study.runs.values()):
            ranks[run.name] = (seeds_before[run.folder], run.folder != baseline, number)
            seeds_before[run.folder] += 1
        last_first = sorted(ranks, key=ranks.__getitem__, reverse=True)
        return {name: priority for priority, name in enumerate(last_first, start=1)}
