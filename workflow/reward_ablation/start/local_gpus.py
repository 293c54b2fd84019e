"""As many runs side by side as this machine has GPUs for, where jobs run here; a cluster counts its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reward_ablation.start.internals import limit, needed_jobs, runs_here, set_limit
from reward_ablation.study.run_spec import RunSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import gpus_here, too_few


def share_gpus(workflow: Any, tell: Callable[[str], None]) -> None:
    """Count the GPUs for the jobs that are about to run, unless `--resources gpu=N` did; nothing where none takes any.

    To be called in `onstart`: a dry run looks for no GPU.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
    tell : function of a line

    Raises
    ------
    StudyError
        A job takes more GPUs than there are.
    """
    jobs = needed_jobs(workflow) if runs_here(workflow) else []
    largest = max(jobs, key=lambda job: job.resources.get("gpu", 0), default=None)
    asked = largest.resources.get("gpu", 0) if largest else 0
    if not asked:
        return
    there = len(gpus_here())
    given = limit(workflow, "gpu")
    if asked > there:
        raise StudyError(f"launch.gpus: {too_few(asked, there, _of_server(largest))}")
    if given is None:
        set_limit(workflow, "gpu", there)
        tell(f"GPUs here: {there}; jobs that take {asked} of them run {there // asked} at a time")
    elif given > there:
        raise StudyError(f"--resources gpu={given}: there are {there} here; leave it out, and all of them are used")


def _of_server(job: Any) -> int:
    """How many of a job's GPUs are for the vLLM server of the run that it trains."""
    return RunSpec.parse(job.params.spec).server_gpus if job.rule.name == "train" else 0
