"""What Snakemake is about to do, for the full check."""

from __future__ import annotations

from typing import Any

from reward_ablation.start.full_check import Work
from reward_ablation.start.internals import submits_jobs, wildcards_to_run
from reward_ablation.start.reruns import Reruns
from reward_ablation.study.study import Study


def planned_work(workflow: Any, study: Study, reruns: Reruns) -> Work:
    """What this start is about to do; to be called in `onstart`, when all jobs are planned.

    The Slurm executor checks its own jobs, so that no site is given.
    """
    prepares = {f"data/evaluation/{each.dataset}.parquet" for each in wildcards_to_run(workflow, "prepare_evaluation")}
    if wildcards_to_run(workflow, "prepare_train"):
        prepares.add(study.problems_file)
    if study.demonstrations_file and wildcards_to_run(workflow, "prepare_sft"):
        prepares.add(study.demonstrations_file)
    return Work(
        trains=reruns.trains,
        scores=reruns.scorings() > 0,
        fetches_model=bool(wildcards_to_run(workflow, "fetch")),
        prepares=frozenset(prepares),
        code_counts=reruns.code_counts,
        submits=submits_jobs(workflow),
        site=None,
        runs=frozenset(reruns.asked()),
    )
