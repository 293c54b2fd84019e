"""All uses of Snakemake's internal attributes, which may change between its versions.

The Snakefile, `reruns`, `rule_params` and the Slurm executor call these functions. Snakemake has no public way for a
workflow to know its targets or jobs, or to have a job run again. There are fifteen uses, each marked with its number.
An attribute that is missing gives a StudyError that names it.
"""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

from snakemake.executors import local

from reward_ablation.system.errors import StudyError


def per_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a cached signature, which Snakemake reads two or three times for every job."""

    @wraps(function)
    def same(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    same.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return same


def counts_params(workflow: Any) -> bool:
    """Whether changed params are a reason to run a job again in this start."""
    return "params" in {str(trigger) for trigger in _part(workflow, "dag_settings", "rerun_triggers")}  # 1


def is_main(workflow: Any) -> bool:
    """Whether this is the Snakemake that the user started, and not one that Snakemake started for a job."""
    return _part(workflow, "is_main_process")  # 2


def is_dry_run(workflow: Any) -> bool:
    """Whether this start is a dry run, which makes no files; known from the beginning of the Snakefile."""
    return bool(_part(workflow, "output_settings", "dryrun"))  # 3


def force(workflow: Any, file: str) -> None:
    """Have the job that makes a file run, as with `--forcerun`; to be called while jobs are made (input functions)."""
    _part(workflow, "dag", "forcefiles").add(file)  # 4


def shows_all_jobs(workflow: Any) -> bool:
    """Whether the graph needs the jobs behind results that stay: in a report, list or drawing, and with --forcerun."""
    settings = _part(workflow, "dag_settings")  # 5
    forces = any(getattr(settings, name, None) for name in ("forcerun", "forceall", "forcetargets"))
    return forces or getattr(workflow, "execution_settings", None) is None  # 6


def needed_jobs(workflow: Any) -> list[Any]:
    """Jobs that still have to run; to be called once all jobs are planned."""
    return list(_part(workflow, "dag", "needrun_jobs")())  # 7


def jobs_to_submit(workflow: Any) -> list[Any]:
    """Jobs that run elsewhere than on this machine; to be called once all jobs are planned, but in no dry run."""
    return [job for job in needed_jobs(workflow) if not job.is_local]


def compare_no_records(workflow: Any, rules: Collection[str], whole: Collection[str] = ()) -> None:
    """Run no job of these rules because Snakemake's own record of it differs; to be called while jobs are made.

    Outputs of the rules `whole` are kept also where Snakemake did not see the end of their job.
    """

    def except_for(compare: Callable[..., Any], job: Any, file: Any = None) -> Any:
        if job.rule.name in rules:
            return [] if file is None else False
        return compare(job) if file is None else compare(job, file=file)

    async def incomplete_of_others(incomplete: Callable[..., Any], job: Any) -> list[Any]:
        return [] if job.rule.name in whole else await incomplete(job)

    persistence = _part(workflow, "persistence")
    judgements: dict[str, Callable[..., Any]] = {"incomplete": incomplete_of_others}
    for name in ("params_changed", "input_changed", "code_changed", "software_stack_changed"):
        judgements[name] = except_for
    for name, ours in judgements.items():
        setattr(persistence, name, partial(ours, _part(persistence, name, of="workflow.persistence")))  # 8


def limit(workflow: Any, resource: str, amount: int) -> None:
    """Let all jobs use at most this amount of a resource, as with --resources; to be called in the Snakefile."""
    limits = _part(workflow, "global_resources")  # 9
    given = limits.get(resource)
    limits[resource] = amount if given is None or given.value is None else min(given.value, amount)


def given_config(workflow: Any) -> Mapping[str, Any]:
    """The keys and values of --config."""
    return _part(workflow, "config_settings", "config")  # 10


def hand_to_jobs(workflow: Any, entry: str) -> None:
    """Give each job's Snakemake this `key=value` as --config. It must need no quotes: Snakemake does not quote it."""
    _part(workflow, "config_settings").config_args = [entry]  # 11


def keep_updated(workflow: Any) -> None:
    """Let failed jobs keep outputs flagged `update()`: Snakemake would remove those that it has no backup of."""
    persistence = _part(workflow, "persistence")
    _part(persistence, "restore_output", of="persistence")  # 12
    persistence.restore_output = Path.exists


def watch_failures(failed: Callable[[Any, int], None]) -> None:
    """Call a function with each failed local job and its exit status (1 without a command) before another attempt."""
    report = getattr(local.Executor, "_callback", None)  # 13
    if report is None:
        raise StudyError("this version of Snakemake has no local.Executor._callback; install snakemake 9.27")

    def callback(executor: Any, info: Any, future: Any) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Exception):
            failed(info.job, _exit_status(error))
        report(executor, info, future)

    local.Executor._callback = callback


def _exit_status(error: BaseException | None) -> int:
    """Exit status of the failed command in an error that Snakemake has wrapped in others; 1 where there is none."""
    while error is not None and not isinstance(error, subprocess.CalledProcessError):
        error = error.__cause__ or error.__context__
    return 1 if error is None else error.returncode


def last_attempt(job: Any) -> None:
    """Make a job's present attempt its last one."""
    job.attempt = job.restart_times + 1  # 14


def start_no_more_jobs(workflow: Any) -> None:
    """End this start once the jobs that run are done, as without --keep-going."""
    _part(workflow, "scheduler", "keepgoing")
    workflow.scheduler.keepgoing = False  # 15


def _part(snakemake: Any, *names: str, of: str = "workflow") -> Any:
    """A nested attribute of an object of Snakemake, which a StudyError calls `of` if the attribute is missing."""
    part = snakemake
    for name in names:
        part = getattr(part, name, None)
    if part is None:
        raise StudyError(f"this version of Snakemake has no {of}.{'.'.join(names)}; install snakemake 9.27")
    return part
