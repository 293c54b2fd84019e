"""What Snakemake is about to do: for the full check, and for the GPUs of this machine, which Snakemake counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reward_ablation.spec.run import RunSpec
from reward_ablation.start.full_check import Work
from reward_ablation.start.internals import changes_files, limit, needed_jobs, set_limit, submits_jobs
from reward_ablation.start.reruns import Reruns
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import gpus_here, too_few_gpus_text


def planned_work(reruns: Reruns) -> Work:
    """What this start is about to do; to be called in `onstart`, when all jobs are planned.

    The Slurm executor checks its own jobs, so that no site is given.
    """
    return Work(
        runs=frozenset(reruns.runs_to_train()),
        trains=reruns.trains,
        scores=reruns.scorings() > 0,
        makes=frozenset(reruns.inputs()),
        code_counts=reruns.code_counts,
        submits=submits_jobs(reruns.workflow),
        site=None,
    )


def share_gpus(workflow: Any, tell: Callable[[str], None]) -> None:
    """Let as many jobs run at once as this machine has GPUs for, unless `--resources gpu=N` limits the GPUs.

    A job that takes more GPUs than exist is refused. On a cluster nothing is done: Slurm counts the GPUs. To be called
    in `onstart`, which a dry run does not call: a dry run needs no GPU.
    """
    jobs = needed_jobs(workflow) if changes_files(workflow) and not submits_jobs(workflow) else []
    largest = max(jobs, key=lambda job: job.resources.get("gpu", 0), default=None)
    needed = largest.resources.get("gpu", 0) if largest else 0
    if largest is None or not needed:
        return
    available = len(gpus_here())
    given = limit(workflow, "gpu")
    if needed > available:
        of_server = RunSpec.parse(largest.params.spec).server_gpus if largest.rule.name == "train" else 0
        raise StudyError(f"launch.gpus: {too_few_gpus_text(needed, available, of_server)}")
    if given is not None and given > available:
        raise StudyError(
            f"--resources gpu={given}: this machine has {available}; leave the option out to use all of them"
        )
    if given is None:
        set_limit(workflow, "gpu", available)
        tell(f"GPUs here: {available}; jobs that take {needed} of them run {available // needed} at a time")
