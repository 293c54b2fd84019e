"""What Snakemake asks for each job beside its files: params, threads, resources and a priority, by its wildcards.

The rules in `workflow/rules/` take these functions from the one `RuleParams` that the Snakefile makes. No key, record
or rerun depends on the priority. It is chosen so that the first comparisons of arms are finished early: among the jobs
that are ready, Snakemake starts those with the highest priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from reward_ablation.start.internals import per_job
from reward_ablation.study.job_options import resources_of, threads_of
from reward_ablation.study.run_folder import HIDDEN_RECORD
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError

#: Resources that Snakemake converts to other units, and that must therefore be numbers.
SIZES = ("mem_mb", "disk_mb")


def verbatim(text: str) -> Callable[[Any], str]:
    """A param that is this text for all jobs. In a plain string of JSON, Snakemake would expand the braces."""

    def param(wildcards: Any) -> str:
        return text

    return per_job(param)


class RuleParams:
    """The params of rules whose jobs differ, and the priorities of jobs, as functions of the wildcards."""

    def __init__(self, study: Study, code_counts: Callable[[], bool] = lambda: True):
        self.study = study
        self.code_counts = code_counts
        self.first = 2 * len(study.runs) + 2  # priority of the jobs that fetch models and prepare data

    def _run(self, wildcards: Any) -> Run:
        if wildcards.run not in self.study.runs:
            raise StudyError(f"{wildcards.run}: no run of this study; its runs are listed by `snakemake -n`")
        return self.study.runs[wildcards.run]

    def spec_of_run(self, wildcards: Any) -> str:
        return self._run(wildcards).spec

    def code_of_run(self, wildcards: Any) -> str:
        return self._run(wildcards).code

    def options_of_run(self, wildcards: Any) -> str:
        """Options of a run's training command. With --any-code, a whole run of older code only gets its record back."""
        run = self._run(wildcards)
        is_whole = not self.code_counts() and (self.study.results / "runs" / run.name / HIDDEN_RECORD).is_file()
        return f"{run.options}{' --any-code' if is_whole else ''}"

    @property
    def resources_of_evaluation(self) -> dict[str, int]:
        """Resources of an evaluation: one GPU, or none."""
        return {"gpu": min(1, self.study.config.launch.gpus)}

    def threads_of_run(self, wildcards: Any) -> int:
        """CPU threads of a run on each of its nodes."""
        return threads_of(self._run(wildcards).launch)

    @cached_property
    def resources_of_run(self) -> dict[str, int | Callable[[Any], int | str | None]]:
        """Resources of a training job by wildcards; a plain number where all runs are alike, which is faster."""
        of_runs = {name: resources_of(run.launch) for name, run in self.study.runs.items()}
        names = dict.fromkeys(name for own in of_runs.values() for name in own)
        resources: dict[str, int | Callable[[Any], int | str | None]] = {}
        for name in names:
            by_run = {run: own.get(name, 0 if name in SIZES else None) for run, own in of_runs.items()}
            value, *others = set(by_run.values())
            resources[name] = value if not others and isinstance(value, int) else partial(_of_wildcards, by_run)
        return resources

    def reward_model(self, wildcards: Any) -> str:
        """Source of a reward model, which the wildcard names by its key."""
        return self.study.reward_models[wildcards.reward_model]

    def evaluation_set(self, wildcards: Any) -> str:
        return self.study.datasets[wildcards.dataset]

    def priority_of_run(self, wildcards: Any) -> int:
        return self.priorities.get(wildcards.run, 0)

    def priority_of_answers(self, wildcards: Any) -> int:
        """Priority of an evaluation or scoring: above all training, and highest for the base model."""
        runs = len(self.study.runs)
        return runs + self.priorities.get(wildcards.get("run", wildcards.get("model")), runs + 1)

    @cached_property
    def priorities(self) -> dict[str, int]:
        """Priority of each training, from 1: first seeds before second ones, and the baseline first among equals."""
        study = self.study
        baseline = study.folders[study.keys[study.config.baseline or next(iter(study.arms))]]
        seeds_before: Counter[str] = Counter()
        ranks = {}
        for number, run in enumerate(study.runs.values()):
            ranks[run.name] = (seeds_before[run.folder], run.folder != baseline, number)
            seeds_before[run.folder] += 1
        last_first = sorted(ranks, key=ranks.__getitem__, reverse=True)
        return {name: priority for priority, name in enumerate(last_first, start=1)}


def _of_wildcards(by_run: dict[str, int | str | None], wildcards: Any) -> int | str | None:
    return by_run.get(wildcards.run)
