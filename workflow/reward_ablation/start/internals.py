"""What the workflow uses of Snakemake's own parts, which may change between its versions.

Snakemake has no public way for a workflow to know its targets or jobs, or to have a job run again.
"""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from snakemake.common import overwrite_function_params
from snakemake.executors import local
from snakemake.shell import shell
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from reward_ablation.system.errors import StudyError


def per_job(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, for a param or an input that Snakemake asks for once per job.

    Snakemake reads the signature of such a function two or three times per job. Python works a method's signature out
    each time, which took a sixth of planning 10,000 jobs. Snakemake is told the parameters of the returned function.
    """

    @wraps(function)
    def same(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    overwrite_function_params(same, inspect.signature(function).parameters)
    return same


def targets(workflow: Any) -> set[str]:
    """Rules and files that are asked for on the command line."""
    return set(_part(workflow, "dag_settings", "targets"))


def makes_files(workflow: Any) -> bool:
    """Whether this start makes files, or is a dry run of that: no report and no drawing of the rules."""
    return getattr(workflow, "execution_settings", None) is not None


def counts_params(workflow: Any) -> bool:
    """Whether changed params are a reason to run a job again in this start."""
    return "params" in {str(trigger) for trigger in _part(workflow, "dag_settings", "rerun_triggers")}


def is_main(workflow: Any) -> bool:
    """Whether this is the Snakemake that was started, and not one that it has started for a job."""
    return _part(workflow, "is_main_process")


def force(workflow: Any, file: str) -> None:
    """Have the job that makes a file run again; to be called while the jobs are made, as by input functions."""
    _part(workflow, "dag", "forcefiles").add(file)


def wildcards_to_run(workflow: Any, rule: str) -> list[Any]:
    """Wildcards of a rule's jobs that are about to run; to be called in `onstart`."""
    return [job.wildcards for job in needed_jobs(workflow) if job.rule.name == rule]


def needed_jobs(workflow: Any) -> list[Any]:
    """Jobs that are about to run; to be called once all jobs are planned."""
    return list(_part(workflow, "dag", "needrun_jobs")())


def once_planned(workflow: Any, function: Callable[[], None]) -> None:
    """Call a function once all jobs are planned, instead of taking Snakemake's lock and starting them.

    The function must end the process. To be called while the jobs are made, as by input functions.
    """
    _part(workflow, "persistence", "lock")
    workflow.persistence.lock = function


def compare_no_input_sets(workflow: Any, rules: Collection[str]) -> None:
    """Have another set of input files be no reason to run a job of these rules; to be called while jobs are made."""
    persistence = _part(workflow, "persistence")
    compare = _part(persistence, "input_changed", of="workflow.persistence")

    def input_changed(job: Any, file: Any = None) -> Any:
        if job.rule.name in rules:
            return [] if file is None else False
        return compare(job, file=file)

    persistence.input_changed = input_changed


def inputs_of(workflow: Any, rule: str) -> list[str]:
    """Input files of a rule without wildcards."""
    return list(_part(workflow, "get_rule")(rule).input)


def jobs_to_submit(workflow: Any) -> list[Any]:
    """Jobs that this start would submit, also in a dry run, where all jobs count as local."""
    local = _part(workflow, "_localrules")
    return [job for job in needed_jobs(workflow) if job.rule.name not in local and not job.rule.norun]


def followers(workflow: Any, job: Any) -> list[Any]:
    """Jobs that depend on a job and are about to run; to be called once all jobs are planned."""
    dag = _part(workflow, "dag")
    after = _part(dag, "depending", of="dag").get(job, {})
    return sorted((each for each in after if _waits(dag, each)), key=lambda each: (each.rule.name, *each.wildcards))


def waits_only_for(workflow: Any, job: Any, other: Any) -> bool:
    """Whether all jobs that a job depends on have ended or need not run, but for one other."""
    dag = _part(workflow, "dag")
    return not any(before is not other and _waits(dag, before) for before in _part(dag, "dependencies", of="dag")[job])


def _waits(dag: Any, job: Any) -> bool:
    return dag.needrun(job) and not dag.finished(job)


def by_priority(jobs: Iterable[Any]) -> list[Any]:
    """Jobs of the highest priority first; a StudyError where this version of Snakemake's jobs have none."""
    return sorted(jobs, key=lambda job: -_part(job, "priority", of="job"))


def in_dry_runs(check: Callable[[Any, Any], None]) -> None:
    """Have a dry run call a function with its workflow and logger, once all jobs are planned.

    A dry run makes an executor of Snakemake's own, and calls no `onstart`.
    """
    plugin = ExecutorPluginRegistry().get_plugin("dryrun")

    class Checked(plugin.executor):  # type: ignore[name-defined, misc]
        def __init__(self, workflow: Any, logger: Any) -> None:
            super().__init__(workflow, logger)
            check(workflow, logger)

    plugin.executor = Checked


def runs_here(workflow: Any) -> bool:
    """Whether this start runs its jobs on this machine; not where they are submitted, or where files are touched."""
    return _part(workflow, "local_exec") and not _part(workflow, "touch")


def site_file(workflow: Any) -> Path | None:
    """The site file of the cluster that jobs are submitted to; None where they are not submitted to one."""
    return getattr(getattr(workflow, "executor_settings", None), "site", None)


def submits_jobs(workflow: Any) -> bool:
    """Whether this start submits its jobs to run elsewhere; known once they are planned."""
    return not _part(workflow, "local_exec")


def is_dry_run(workflow: Any) -> bool:
    """Whether this start makes no file."""
    return bool(_part(workflow, "dryrun"))


def local_cores(workflow: Any) -> int:
    """Number of cores that may be used on this machine, also where jobs are submitted to others."""
    settings = _part(workflow, "resource_settings")
    given = [getattr(settings, name, None) for name in ("cores", "local_cores")]
    return min((cores for cores in given if cores), default=1)


def limit(workflow: Any, resource: str) -> int | None:
    """How much of a resource all jobs together may use, as given with --resources; None where that is not given."""
    given = _part(workflow, "global_resources").get(resource)
    return None if given is None else given.value


def set_limit(workflow: Any, resource: str, amount: int) -> None:
    """Let all jobs together use so much of a resource, as by --resources; to be called in `onstart`."""
    _part(workflow, "register_resource")(resource, amount)  # what is free, for a scheduler that has one
    _part(workflow, "scheduler", "global_resources")[resource] = amount  # what a job that starts takes from


def given_config(workflow: Any) -> Mapping[str, Any]:
    """What --config says, by key."""
    return _part(workflow, "config_settings", "config")


def hand_to_jobs(workflow: Any, entry: str) -> None:
    """Give the Snakemake of each job this `key=value` of --config, in place of what --config says in this start.

    The text must need no quoting: Snakemake's own quoting is not a shell's.
    """
    _part(workflow, "config_settings").config_args = [entry]


def shell_command(job: Any) -> str:
    """What bash is to run for a job, as Snakemake itself would run it: after what `shell.prefix` says."""
    if job.shellcmd is None:
        raise StudyError(f"{job.rule.name}: only a rule with a shell command can be submitted to Slurm")
    return f"{_part(shell, '_process_prefix', of='shell')}{job.shellcmd}"


def latency_wait(workflow: Any) -> int:
    """Seconds that a network file system has to show the files of another machine."""
    return _part(workflow, "execution_settings", "latency_wait")


def keep_updated(workflow: Any) -> None:
    """Have failed jobs keep their outputs that are flagged `update()`.

    Snakemake makes no backup of the outputs of a job that it submits, and removes the outputs that it cannot restore.
    """
    persistence = _part(workflow, "persistence")
    _part(persistence, "restore_output", of="persistence")
    persistence.restore_output = Path.exists


def watch_failures(failed: Callable[[Any, int], None]) -> None:
    """Have a function see each job that fails on this machine, before Snakemake decides on another attempt.

    Snakemake itself starts a job again whatever the exit status was. `failed` gets the job and the exit status of its
    command, as `subprocess` has it; 1 for an error without a command.
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
    """Exit status of the command whose failure Snakemake has wrapped in errors of its own."""
    while error is not None and not isinstance(error, subprocess.CalledProcessError):
        error = error.__cause__ or error.__context__
    return 1 if error is None else error.returncode


def last_attempt(job: Any) -> None:
    """Have Snakemake take a job's present attempt for the last one."""
    job.attempt = job.restart_times + 1


def variable(workflow: Any, name: str) -> Any:
    """What the Snakefile calls by a name."""
    return _part(workflow, "globals")[name]


def _part(workflow: Any, *names: str, of: str = "workflow") -> Any:
    """An attribute's attribute of Snakemake's workflow, or of a job; a StudyError where there is none."""
    part = workflow
    for name in names:
        part = getattr(part, name, None)
    if part is None:
        raise StudyError(f"this version of Snakemake has no {of}.{'.'.join(names)}; install snakemake 9.27")
    return part
