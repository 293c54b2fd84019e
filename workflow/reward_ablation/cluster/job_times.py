"""When the Slurm job that this process runs in began, and when it will be ended."""

from __future__ import annotations

from collections.abc import Mapping

from reward_ablation.cluster.command import SlurmError, ask


def start_of_job(environment: Mapping[str, str]) -> int | None:
    """Start of the present job, in seconds since 1970; None outside a job, or where none is known."""
    return _time(environment, "SLURM_JOB_START_TIME", "%S", "the start of this job is not on record")


def end_of_job(environment: Mapping[str, str]) -> int | None:
    """End of the present job by its time limit, in seconds since 1970; None outside a job, or where none is known."""
    unknown = "the end of this job is not known, and is waited for as a signal"
    return _time(environment, "SLURM_JOB_END_TIME", "%e", unknown)


def _time(environment: Mapping[str, str], variable: str, field: str, unknown: str) -> int | None:
    """A time that Slurm tells in a variable, and before version 23 in the job's listing alone."""
    told = environment.get(variable, "")
    if not told and "SLURM_JOB_ID" in environment:
        try:
            told = ask("squeue", "--noheader", f"--jobs={environment['SLURM_JOB_ID']}", f"--format={field}").strip()
        except SlurmError as error:
            print(f"warning: {error}: {unknown}", flush=True)
    return int(told) if told.isdecimal() else None
