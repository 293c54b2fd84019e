"""All uses of Snakemake's internal attributes, which may change between its versions.

Snakemake has no public way for a workflow to know its targets or jobs, or to have a job run again. An attribute that
is missing gives a StudyError that names it.
"""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

from snakemake.common import overwrite_function_params
from snakemake.executors import local
from snakemake.shell import shell
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from reward_ablation.system.errors import StudyError


def per_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a cached signature, for a param or input function that Snakemake calls for every job.

    Snakemake reads the signature of such a function two or three times per job. Python computes a method's signature
    anew each time, which took a sixth of planning 10,000 jobs.
    """

    @wraps(function)
    def same(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    overwrite_function_params(same, inspect.signature(function).parameters)
    return same


def counts_params(workflow: Any) -> bool:
    """Whether changed params are a reason to run a job again in this start."""
    return "params" in {str(trigger) for trigger in _part(workflow, "dag_settings", "rerun_triggers")}


def is_main(workflow: Any) -> bool:
    """Whether this is the Snakemake that the user started, and not one that Snakemake started for a job."""
    return _part(workflow, "is_main_process")


def force(workflow: Any, file: str) -> None:
    """Have the job that makes a file run, as with `--forcerun`; to be called while jobs are made (input functions)."""
    _part(workflow, "dag", "forcefiles").add(file)


def shows_all_jobs(workflow: Any) -> bool:
    """Whether the graph needs the jobs behind results that stay: in a report, list or drawing, and with --forcerun."""
    settings = _part(workflow, "dag_settings")
    forces = any(getattr(settings, name, None) for name in ("forcerun", "forceall", "forcetargets"))
    return forces or getattr(workflow, "execution_settings", None) is None


def needed_jobs(workflow: Any) -> list[Any]:
    """Jobs that are about to run; to be called once all jobs are planned."""
    return list(_part(workflow, "dag", "needrun_jobs")())


def compare_no_records(workflow: Any, rules: Collection[str]) -> None:
    """Run no job of these rules because Snakemake's own record of it differs; to be called while jobs are made."""

    def except_for(compare: Callable[..., Any], job: Any, file: Any = None) -> Any:
        if job.rule.name in rules:
            return [] if file is None else False
        return compare(job) if file is None else compare(job, file=file)

    persistence = _part(workflow, "persistence")
    for name in ("params_changed", "input_changed", "code_changed", "software_stack_changed"):
        compare = _part(persistence, name, of="workflow.persistence")
        setattr(persistence, name, partial(except_for, compare))


def jobs_to_submit(workflow: Any) -> list[Any]:
    """Jobs that this start would submit, also in a dry run, where all jobs count as local."""
    local = _part(workflow, "_localrules")
    return [job for job in needed_jobs(workflow) if job.rule.name not in local and not job.rule.norun]


def followers(workflow: Any, job: Any) -> list[Any]:
    """Jobs that depend on a job and are about to run; to be called once all jobs are planned."""
    dag = _part(workflow, "dag")
    dependents = _part(dag, "depending", of="dag").get(job, {})
    return sorted(
        (after for after in dependents if _waits(dag, after)), key=lambda job: (job.rule.name, *job.wildcards)
    )


def waits_only_for(workflow: Any, job: Any, other: Any) -> bool:
    """Whether a job depends on no job that still has to run, apart from `other`."""
    dag = _part(workflow, "dag")
    return not any(before is not other and _waits(dag, before) for before in _part(dag, "dependencies", of="dag")[job])


def _waits(dag: Any, job: Any) -> bool:
    return dag.needrun(job) and not dag.finished(job)


def in_dry_runs(check: Callable[[Any, Any], None]) -> None:
    """Have a dry run call a function with its workflow and logger, once all jobs are planned.

    A dry run uses Snakemake's own executor, and does not call `onstart`.
    """
    plugin = ExecutorPluginRegistry().get_plugin("dryrun")

    class Checked(plugin.executor):  # type: ignore[name-defined, misc]
        def __init__(self, workflow: Any, logger: Any) -> None:
            super().__init__(workflow, logger)
            check(workflow, logger)

    plugin.executor = Checked


def submits_jobs(workflow: Any) -> bool:
    """Whether this start submits its jobs to run elsewhere; known once all jobs are planned."""
    return not _part(workflow, "local_exec")


def is_dry_run(workflow: Any) -> bool:
    """Whether this start is a dry run, which makes no files; known from the beginning of the Snakefile."""
    return bool(_part(workflow, "output_settings", "dryrun"))


def changes_files(workflow: Any) -> bool:
    """Whether this start may change files. False for a dry run, for --touch, and for a list, report or drawing."""
    makes_files = getattr(workflow, "execution_settings", None) is not None
    return makes_files and not is_dry_run(workflow) and not _part(workflow, "touch")


def limit(workflow: Any, resource: str) -> int | None:
    """How much of a resource all jobs together may use, by --resources; None where --resources does not say."""
    amount = _part(workflow, "global_resources").get(resource)
    return None if amount is None else amount.value


def set_limit(workflow: Any, resource: str, amount: int) -> None:
    """Let all jobs together use this amount of a resource, as with --resources; to be called in `onstart`."""
    _part(workflow, "register_resource")(resource, amount)  # the free amount, for a scheduler that has one
    _part(workflow, "scheduler", "global_resources")[resource] = amount  # the amount that starting jobs take from


def given_config(workflow: Any) -> Mapping[str, Any]:
    """The keys and values of --config."""
    return _part(workflow, "config_settings", "config")


def hand_to_jobs(workflow: Any, entry: str) -> None:
    """Start the Snakemake of each job with this `key=value` in --config, in place of this start's own --config.

    The text must need no quotes, because Snakemake does not quote as a shell needs it.
    """
    _part(workflow, "config_settings").config_args = [entry]


def shell_command(job: Any) -> str:
    """The text that bash runs for a job, as Snakemake itself would run it: `shell.prefix` and the rule's command."""
    if job.shellcmd is None:
        raise StudyError(f"{job.rule.name}: only a rule with a shell command can be submitted to Slurm")
    return f"{_part(shell, '_process_prefix', of='shell')}{job.shellcmd}"


def keep_updated(workflow: Any) -> None:
    """Let failed jobs keep their outputs that are flagged `update()`.

    Snakemake makes no backup of such outputs for a job that it submits, and removes outputs that it cannot restore.
    """
    persistence = _part(workflow, "persistence")
    _part(persistence, "restore_output", of="persistence")
    persistence.restore_output = Path.exists


def watch_failures(failed: Callable[[Any, int], None]) -> None:
    """Call a function for each job that fails on this machine, before Snakemake decides on another attempt.

    Snakemake itself starts a job again after any exit status. `failed` gets the job and the exit status of its command
    as in `subprocess`; 1 for an error without a command.
    """
    report = getattr(local.Executor, "_callback", None)
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
    job.attempt = job.restart_times + 1


def start_no_more_jobs(workflow: Any) -> None:
    """End this start once the jobs that run are done, as without --keep-going."""
    _part(workflow, "scheduler", "keepgoing")
    workflow.scheduler.keepgoing = False


def _part(workflow: Any, *names: str, of: str = "workflow") -> Any:
    """A nested attribute of a Snakemake object, which `of` names in the StudyError raised where it is missing."""
    part = workflow
    for name in names:
        part = getattr(part, name, None)
    if part is None:
        raise StudyError(f"this version of Snakemake has no {of}.{'.'.join(names)}; install snakemake 9.27")
    return part
