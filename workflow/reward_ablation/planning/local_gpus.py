"""As many runs side by side as this machine has GPUs for, where jobs run here; a cluster counts its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reward_ablation.planning.internals import limit, needed_jobs, runs_here, set_limit
from reward_ablation.study.errors import StudyError
from reward_ablation.study.gpus import gpus_here, too_few


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
    asked = max((job.resources.get("gpu", 0) for job in needed_jobs(workflow)), default=0) if runs_here(workflow) else 0
    if not asked:
        return
    there = len(gpus_here())
    given = limit(workflow, "gpu")
    if asked > there:
        raise StudyError(f"launch.gpus: {too_few(asked, there)}")
    if given is None:
        set_limit(workflow, "gpu", there)
        tell(f"GPUs here: {there}; jobs that take {asked} of them run {there // asked} at a time")
    elif given > there:
        raise StudyError(f"--resources gpu={given}: there are {there} here; leave it out, and all of them are used")
