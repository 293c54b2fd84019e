"""Snakemake's executor for Slurm, so that no GPU hour is lost to what happens between Snakemake and Slurm.

A child of snakemake-executor-plugin-slurm, which keeps the logs, the submission threads and the cancelling. Other than
there,

- jobs are named after the study, the arm and the seed, and take what they ask for from one site file;
- jobs of an earlier Snakemake that still wait or run are taken over and not submitted again;
- what cannot run on this cluster is refused before anything is submitted;
- a controller that does not answer, a job that was preempted, or one that Slurm has forgotten does not hang a study;
- a job runs the rule's command itself, and no Snakemake.
"""

import asyncio
import contextlib
import os
import shlex
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as slurm_plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

from reward_ablation.cluster.command import SlurmError, ask
from reward_ablation.cluster.job_names import digest_of, job_name, params_in, prefix
from reward_ablation.cluster.options import unread_variables
from reward_ablation.cluster.outcome import Ended, Outcomes
from reward_ablation.cluster.preflight import check_jobs, no_room, within_limits
from reward_ablation.cluster.request import arguments, request_of
from reward_ablation.cluster.script import Part, batch_script
from reward_ablation.cluster.site import read_site
from reward_ablation.cluster.slurm import is_live, live_jobs, my_jobs, partitions
from reward_ablation.cluster.submission import (
    Reminder,
    may_come_later,
    number_in,
    output_pattern,
    submission_limit,
    told_of_limit,
    verdict,
)
from reward_ablation.start.internals import (
    by_priority,
    jobs_to_submit,
    keep_updated,
    last_attempt,
    latency_wait,
    needed_jobs,
    shell_command,
    variable,
)
from reward_ablation.start.job_commands import check_config_files
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.exit_status import is_permanent

from .settings import ExecutorSettings as ExecutorSettings

# Snakemake imports its plugins before it reads config files, and reads them before any code of the workflow.
with one_line_errors():
    check_config_files(sys.argv)

common_settings = slurm_plugin.common_settings

#: Seconds that `sbatch` may take: a busy controller has it wait.
SUBMISSION = 300.0

#: Seconds between two words on what lasts: a controller that does not answer, a limit that is reached.
TELL_EVERY = 300.0

#: A file of partitions of the parent plugin, which chooses among them; here the site file does.
PARTITIONS_OF_PARENT = "SNAKEMAKE_SLURM_PARTITIONS"


class Executor(slurm_plugin.Executor):
    """Submits, watches and takes over jobs."""

    def __post_init__(self, test_mode: bool = False) -> None:
        unread = unread_variables(os.environ)
        if os.environ.pop(PARTITIONS_OF_PARENT, None):
            unread.append(PARTITIONS_OF_PARENT)
        if unread:
            self.logger.warning(f"warning: {', '.join(unread)}: not read; the site file says what jobs ask for")
        super().__post_init__(test_mode)
        with one_line_errors():
            self._check()

    def _check(self) -> None:
        """Refuse by a StudyError all that can be known to go wrong before the first submission."""
        keep_updated(self.workflow)
        self.study = variable(self.workflow, "study")
        self.of_study = prefix(self.study.config.name, self.study.root / self.study.config.root)
        if self.executor_settings.logdir is None:
            self.slurm_logdir = (self.study.root / self.study.config.root / "logs" / "slurm").resolve()
        output_pattern(self.slurm_logdir)
        self.site = read_site(self.executor_settings.site)
        self.outcomes = Outcomes(self.executor_settings.patience)
        self.ending = threading.Event()
        self.cancelled: set[str] = set()
        self.memory_factors: dict[str, int] = {}
        self.unreachable, self.at_limit = Reminder(TELL_EVERY), Reminder(TELL_EVERY)
        self.to_submit: set[str] = set()
        self.room_lock, self.room_checked = threading.Lock(), False
        self.no_room: str | None = None
        try:
            self.cluster = partitions()
            live = live_jobs(self.of_study, my_jobs())
        except SlurmError as error:
            raise StudyError(f"{error}; start this on a machine where `sinfo` answers") from None
        self.earlier = {name: job for name, job in live.items() if not job.ending}
        self.leaving = {name: job.id for name, job in live.items() if job.ending}
        needed = jobs_to_submit(self.workflow)
        if grouped := next((job for job in needed if job.group is not None), None):
            raise StudyError(
                f"--groups: {grouped.rule.name}: each job of a study is a Slurm job of its own; leave it out"
            )
        jobs = {self._name(job): job for job in needed}
        new = [job for name, job in jobs.items() if name not in self.earlier]
        check_jobs(new, self.site, self.executor_settings.site, self.cluster)
        self._check_earlier(jobs)

    def _check_earlier(self, jobs: dict[str, JobExecutorInterface]) -> None:
        """Tell of jobs of an earlier start; refuse those that make by other code what this one is to make."""
        for name, earlier in self.earlier.items():
            job = jobs.get(name)
            if job is None:
                self.logger.warning(
                    f"warning: Slurm job {earlier.id} of an earlier start ({name}) makes nothing that this one needs; "
                    f"`scancel {earlier.id}` ends it"
                )
            elif params_in(earlier.comment) != digest_of(job.params):
                raise StudyError(
                    f"Slurm job {earlier.id} of an earlier start still works on {_what(job)}, with other code or "
                    f"settings; end it with `scancel {earlier.id}`, or wait for it, then run the same command again"
                )
        adopted = [job.id for name, job in self.earlier.items() if name in jobs]
        if adopted:
            self.logger.info(
                f"jobs of an earlier start still wait or run, and are not submitted again: Slurm jobs "
                f"{', '.join(adopted)}"
            )

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        """Take over the jobs of an earlier start at once, and submit the others, which may have to wait.

        Jobs that wait start in the order of their submission, as far as Slurm goes by that. Snakemake hands them over
        in no order.
        """
        earlier = [job for job in jobs if self._name(job) in self.earlier]
        others = by_priority(job for job in jobs if self._name(job) not in self.earlier)
        self.to_submit.update(map(self._name, others))
        super().run_jobs(others)
        for job in earlier:
            self.run_job_pre(job)
            self.run_job(job)

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job, or take over the one of an earlier start that does its work."""
        try:
            self._check_room()
            earlier = self.earlier.pop(self._name(job), None)
            if leaving := self.leaving.pop(self._name(job), None):
                self._wait_for_end(job, leaving)
            number, how = (earlier.id, "is the work of") if earlier else self._submitted(job)
            log = self._log(job, number)
            self.logger.info(f"{_what(job)}: {how} Slurm job {number} (log: {log})")
            self._report_job_submission_threadsafe(SubmittedJobInfo(job, number, {"slurm_logfile": log}))
        except Exception as error:  # whatever it is: a job of which nothing is reported is waited for for ever
            self.logger.debug("submission", exc_info=True)
            if isinstance(error, StudyError | SlurmError):  # what may come later has been waited for
                last_attempt(job)
            self._report_job_error_threadsafe(SubmittedJobInfo(job), f"{_what(job)}: {error}\n")
        finally:
            self.to_submit.discard(self._name(job))

    def _wait_for_end(self, job: JobExecutorInterface, number: str) -> None:
        """Return when a job of an earlier start that was cancelled has saved what it has."""
        self.logger.info(f"{_what(job)}: waits for Slurm job {number} of an earlier start, which is ending")
        while not self.ending.wait(self.executor_settings.poll):
            try:
                if not is_live(number):
                    return
            except SlurmError as error:
                if not may_come_later(str(error)):
                    return  # no longer known
                self._tell_unreachable(error)

    def _submitted(self, job: JobExecutorInterface) -> tuple[str, str]:
        """Number of the Slurm job that does a job's work, and in words how that job came to be.

        A controller that does not answer, or takes no more jobs now, is waited for. The controller may have taken a
        submission that it did not confirm: so we look for the job by its name before we submit it again.
        """
        look = job.attempt > 1
        while not self.ending.is_set():
            try:
                if look and (live := self._live(job)):
                    return live, "is the work of"
                look = True
                number = number_in(self._submit(job)) or self._live(job)
                if number is None:
                    raise StudyError("sbatch did not say the number of the job")
                if self.ending.is_set():
                    self._cancel(number)
                    break
                return number, "submitted as"
            except SlurmError as error:
                self.ending.wait(max(2, self.executor_settings.poll))
                if not may_come_later(str(error)) and not self._is_live(job):
                    raise
                self._tell_later(error)
        raise StudyError("not submitted: Snakemake is ending")

    def _submit(self, job: JobExecutorInterface) -> str:
        """What `sbatch` answers."""
        logs = self._log(job, "%j").parent
        logs.mkdir(parents=True, exist_ok=True)
        memory_factor = self.memory_factors.get(self._name(job), 1)
        asked = request_of(self.site, job.rule.name, job.resources, job.threads, job.attempt, memory_factor)
        request = within_limits(asked, self.cluster)
        script = batch_script([self._part(job)], os.getcwd(), latency_wait(self.workflow))
        command = ["sbatch", "--parsable", f"--output={output_pattern(logs)}", "--open-mode=append", "--export=ALL"]
        command += [f"--chdir={os.getcwd()}", *arguments(request, self.site.gpus_by)]
        command += ["--requeue" if self.executor_settings.requeue else "--no-requeue"]
        command += [f"--job-name={self._name(job)}", f"--comment={_what(job)} params={digest_of(job.params)}"]
        self.logger.debug(f"sbatch call: {shlex.join(command)}\n{script}")
        return ask(*command, given=script, timeout=SUBMISSION)

    def _part(self, job: JobExecutorInterface) -> Part:
        """What a Slurm job is to do for a job."""
        outputs = [str(file) for file in (*job.output, *job.log)]
        inputs = [str(file) for file in job.get_wait_for_files()]
        benchmark = str(job.benchmark) if job.benchmark else None
        return Part(shell_command(job), inputs, outputs, job.threads, self._log(job, "%j").parent, benchmark)

    def _live(self, job: JobExecutorInterface) -> str | None:
        """Number of a job of this name that waits or runs, if not one that was just cancelled."""
        live = live_jobs(self.of_study, my_jobs()).get(self._name(job))
        return live.id if live and live.id not in self.cancelled else None

    def _is_live(self, job: JobExecutorInterface) -> bool:
        try:
            return self._live(job) is not None
        except SlurmError:
            return True  # for all that is known

    def cancel(self) -> None:
        """Cancel all jobs, also those that are being submitted."""
        self.ending.set()
        self._job_submission_executor.shutdown(wait=True, cancel_futures=True)
        super().cancel()

    def _cancel(self, number: str) -> None:
        self.cancelled.add(number)
        with contextlib.suppress(SlurmError):
            ask("scancel", number)

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended; give back those that have not."""
        self.next_seconds_between_status_checks = self.executor_settings.poll
        if not active_jobs:
            return
        try:
            listed = {job.id: job for job in await asyncio.to_thread(my_jobs, 60.0)}
        except SlurmError as error:
            self._tell_unreachable(error)
            for info in active_jobs:
                yield info
            return
        self.unreachable.forget()
        for info in active_jobs:
            number = info.external_jobid
            ended = self.outcomes.look(number, listed.get(number))
            if ended is not None and not ended.state:
                ended = await asyncio.to_thread(self._found_out, info, ended)
            if ended is None:
                yield info
            elif ended.state == "COMPLETED":
                self.report_job_success(info)
                self._clean(info)
            else:
                await asyncio.to_thread(self._fail, info, ended)

    def _found_out(self, info: SubmittedJobInfo, ended: Ended) -> Ended | None:
        """The end of a job that Slurm lists no more: it may live all the same, or have left its exit status."""
        with contextlib.suppress(SlurmError):  # no longer known at all
            if is_live(info.external_jobid):
                return None
        status = verdict(info.aux["slurm_logfile"].parent, info.external_jobid)
        if status is None:
            return ended
        return Ended("FAILED" if status else "COMPLETED", f"ended with status {status}")

    def _clean(self, info: SubmittedJobInfo) -> None:
        """Remove the log of a job that ended well."""
        log = info.aux["slurm_logfile"]
        kept = self.executor_settings.keep_successful_logs
        for path in [log.with_suffix(".status"), *([] if kept else [log])]:
            with contextlib.suppress(OSError):
                path.unlink()

    def _fail(self, info: SubmittedJobInfo, ended: Ended) -> None:
        """Report a job that did not do its work."""
        if ended.may_restart:
            self._cancel(info.external_jobid)
        if ended.state == "OUT_OF_MEMORY":
            self.memory_factors[self._name(info.job)] = 2 * self.memory_factors.get(self._name(info.job), 1)
        status = verdict(info.aux["slurm_logfile"].parent, info.external_jobid)
        permanent = ended.state == "FAILED" and status is not None and is_permanent(status)
        if permanent or not ended.again:
            last_attempt(info.job)
        hint = "; not submitted again, for its error stays: mend it and run the same command" if permanent else ""
        message = f"{_what(info.job)}: Slurm job {info.external_jobid} {ended.why}{hint}\n"
        self.report_job_error(info, msg=message, aux_logs=[str(info.aux["slurm_logfile"])])

    def _tell_later(self, error: SlurmError) -> None:
        """Tell why a submission waits."""
        limit = submission_limit(str(error))
        if limit is None:
            self._tell_unreachable(error)
        elif self.at_limit.due():
            self.logger.warning(f"warning: {told_of_limit(limit, len(self.to_submit))}")

    def _tell_unreachable(self, error: SlurmError) -> None:
        if self.unreachable.due():
            self.logger.warning(f"warning: {error}; jobs run on, and their states are asked for again and again")

    def _check_room(self) -> None:
        """Stop before the first submission where the file system has no room for the training to come.

        Not checked earlier: this very start may have fetched the model, whose size says how much is needed.
        """
        with self.room_lock:  # jobs are submitted by two threads
            if not self.room_checked:
                self.room_checked = True
                self.no_room = self._no_room()
                if self.no_room:
                    self.workflow.scheduler.executor_error_callback(WorkflowError(self.no_room))
        if self.no_room:
            raise StudyError(self.no_room)

    def _no_room(self) -> str | None:
        study = self.study
        results = study.root / study.config.root
        runs = [job.wildcards.run for job in needed_jobs(self.workflow) if job.rule.name == "train"]
        specs = [study.runs[run].arm_spec for run in runs if run in study.runs]
        return no_room((results / study.model_file).parent, results, specs, self.workflow.nodes)

    def _name(self, job: JobExecutorInterface) -> str:
        return job_name(self.of_study, job.rule.name, "_".join(job.wildcards))

    def _log(self, job: JobExecutorInterface, number: str) -> Path:
        """Slurm's log of a job."""
        return self.slurm_logdir / job.rule.name / "_".join(job.wildcards).replace("/", "_") / f"{number}.log"


def _what(job: Any) -> str:
    """A job as one says it: `train mixed-1a2b3c4d/seed0`."""
    return " ".join([job.rule.name, *job.wildcards])
