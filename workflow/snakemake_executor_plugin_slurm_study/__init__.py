"""Snakemake's executor for Slurm. Its aim: no GPU hour is lost because of trouble between Snakemake and Slurm.

Snakemake loads it by the name of this package, where the profile says `executor: slurm-study` (profiles/slurm). What it
does and snakemake-executor-plugin-slurm does not:

- Jobs are named after the study, the arm and the seed, and their requests come from one site file.
- Jobs of an earlier Snakemake that still wait or run are taken over and not submitted again.
- The evaluation of a run may follow the training in the same Slurm job.
- If a study has more jobs than Slurm takes at a time, they are submitted by priority, as others end.
- A job that cannot run on this cluster is refused before anything is submitted.
- A study does not hang if the controller does not answer, if a job is preempted, or if Slurm has forgotten a job.
- A job runs the rule's command itself, and no Snakemake.
"""

import asyncio
import contextlib
import os
import shlex
import sys
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from reward_ablation.cluster.command import UNNAMED_LIMIT, SlurmError, run_slurm_command
from reward_ablation.cluster.job_names import comment, digest_of, job_name, prefix
from reward_ablation.cluster.options import unread_variables
from reward_ablation.cluster.outcome import Ended, Outcomes
from reward_ablation.cluster.preflight import check_jobs, no_room, within_limits
from reward_ablation.cluster.request import Request, arguments, bundles, request_of
from reward_ablation.cluster.script import Part, batch_script, number_in, output_pattern, status_of_part
from reward_ablation.cluster.site import read_site
from reward_ablation.cluster.slurm import is_live, live_jobs, my_jobs, partitions
from reward_ablation.start.config_files import check_config_files
from reward_ablation.start.internals import jobs_to_submit, keep_updated, last_attempt, needed_jobs
from reward_ablation.start.job_commands import shell_prefix
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.exit_status import is_permanent

from .earlier import Slot, check_inputs, followers_of, slot_of, taken_over, words_of

# Checked here because Snakemake imports its plugins before it reads config files. The workflow's code comes later.
with one_line_errors():
    check_config_files(sys.argv)

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False)

#: Seconds that `sbatch` may take. A busy controller lets it wait.
SUBMISSION = 300.0

#: Seconds after which we ask Slurm for room again, even if none of our jobs has ended: other jobs of the user may have.
TRY_EVERY = 60.0

#: Words of the log for a job that an existing Slurm job does.
TAKEN_OVER = "is the work of"

#: Seconds between two messages on the same condition.
REMIND_EVERY = 300.0


def _option(help: str, **more: Any) -> dict[str, Any]:
    """Metadata of a setting that is an option `--slurm-study-...`, but not an environment variable."""
    return {"help": help, "env_var": False, **more}


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings of the executor, which are options `--slurm-study-...` of Snakemake."""

    site: Path = field(
        default=Path("profiles/slurm/site.yaml"),
        metadata=_option("Site file: account, partitions, memory and time on this cluster."),
    )
    poll: int = field(default=20, metadata=_option("Seconds between two checks of the states of all jobs."))
    patience: int = field(
        default=60,
        metadata=_option("Seconds to wait for Slurm to start a job again that was preempted or lost its node."),
    )
    requeue: bool = field(
        default=False, metadata=_option("Let Slurm start preempted jobs again, and jobs whose node died.")
    )
    logdir: Path | None = field(
        default=None,
        metadata=_option("Folder of Slurm's logs; default: logs/slurm in the study's results.", type=Path),
    )
    keep_successful_logs: bool = field(default=False, metadata=_option("Keep Slurm's logs of jobs that ended well."))
    delete_logfiles_older_than: int = field(
        default=10, metadata=_option("Days after which Slurm's logs of failed jobs are deleted; 0: never.")
    )

    def __post_init__(self) -> None:
        with one_line_errors():
            for name, least in (("poll", 1), ("patience", 0)):
                if getattr(self, name) < least:
                    raise StudyError(f"--slurm-study-{name}: must be at least {least}, in seconds")


@dataclass
class Reminder:
    """Has a message given at once, and then again every `REMIND_EVERY` seconds."""

    last: float | None = None

    def due(self) -> bool:
        """Whether to give the message now. After True, the message counts as given."""
        now = time.monotonic()
        if self.last is not None and now - self.last < REMIND_EVERY:
            return False
        self.last = now
        return True


class NoRoom(Exception):
    """Slurm takes no more jobs now; the message is the name of the limit. (`_no_room` is about the disk.)"""


class Executor(RemoteExecutor):
    """Submits, watches and takes over jobs."""

    #: Whether all attributes exist. The thread that watches jobs starts before.
    checked = False

    def __post_init__(self) -> None:
        if unread := unread_variables(os.environ):
            self.logger.warning(f"warning: {', '.join(unread)}: has no effect; the site file says what jobs ask for")
        if "SLURM_JOB_ID" in os.environ:
            self.logger.warning("warning: Snakemake runs in a Slurm job, and ends with this job; jobs that wait do not")
            for name in [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]:
                del os.environ[name]  # what describes this job would count for the jobs that it submits
        with one_line_errors():
            self._check()

    def _check(self) -> None:
        """Prepare all attributes, and raise a StudyError for everything that is known to fail before a submission."""
        keep_updated(self.workflow)
        self.study = self.workflow.globals["study"]
        self.of_study = prefix(self.study.config.name, self.study.results)
        logdir = self.executor_settings.logdir or self.study.results / "logs" / "slurm"
        self.slurm_logdir = Path(self.workflow.workdir_init, logdir).resolve()
        output_pattern(self.slurm_logdir)
        self.site = read_site(self.executor_settings.site)
        self.outcomes = Outcomes(self.executor_settings.patience)
        self.submissions = ThreadPoolExecutor(2, "slurm_study")
        self.ending = threading.Event()
        self.cancelled: set[str] = set()
        #: By the name of a job that needed more memory than its Slurm job had: megabytes to ask for.
        self.least_memory: dict[str, int] = {}
        self.unreachable = Reminder()
        #: Jobs that wait for their submission, the next one first, and the limit for which Slurm takes none now.
        self.waiting: list[JobExecutorInterface] = []
        self.limit: str | None = None
        #: Locks of `waiting` and of the thread that submits, and the event that a Slurm job has ended.
        self.queue, self.submitting, self.freed = threading.Lock(), threading.Lock(), threading.Event()
        self.at_limit = Reminder()
        #: Slurm jobs that this start submitted or took over, and that have not ended, by number.
        self.inside: dict[str, Slot] = {}
        #: By a job's name: the number of an earlier start's Slurm job that is still ending.
        self.leaving: dict[str, str] = {}
        #: Names of jobs whose submission failed, and that Slurm may have accepted nevertheless.
        self.unconfirmed: set[str] = set()
        try:
            self.cluster = partitions()
            live = live_jobs(self.of_study, my_jobs())
        except SlurmError as error:
            raise StudyError(f"{error}; start this on a machine where `sinfo` answers") from None
        needed = jobs_to_submit(self.workflow)
        self.followers = followers_of(needed)
        if grouped := next((job for job in needed if job.group is not None), None):
            instead = "`bundle` in the site file says which jobs share a Slurm job; leave the option out"
            raise StudyError(f"--groups: {grouped.rule.name}: {instead}")
        jobs = {self._name(job): job for job in needed}
        for job in live.values():
            if job.ending:
                self.leaving |= dict.fromkeys(slot_of(job, jobs).names, job.id)
        #: By a job's name: the Slurm job that already does the job, or will do it after its other jobs.
        self.slots = taken_over([job for job in live.values() if not job.ending], jobs, self.logger)
        check_inputs(jobs, self.slots, self.followers, self._name)
        new = [parts for parts in bundles(needed, self.site, self.followers) if self._name(parts[0]) not in self.slots]
        check_jobs(new, self.site, self.executor_settings.site, self.cluster)
        self.checked = True

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        """Take over jobs that a Slurm job already does, and queue the others for submission."""
        others = [job for job in jobs if self._name(job) not in self.slots]
        taken_over = [job for job in jobs if self._name(job) in self.slots]
        for job in others:
            self.run_job_pre(job)
        leaving = [(self.leaving.pop(self._name(job), None), job) for job in others]
        self._enqueue([job for number, job in leaving if number is None])
        if later := [(number, job) for number, job in leaving if number is not None]:
            # In a thread of its own: a node whose processes do not end keeps a Slurm job ending for hours.
            threading.Thread(target=self._wait_for_ends, args=[later], daemon=True).start()
        for job in taken_over:
            self.run_job_pre(job)
            self.run_job(job)

    def _enqueue(self, jobs: list[JobExecutorInterface]) -> None:
        """Queue jobs by priority: Snakemake hands them over in no order, and Slurm may start them as they come."""
        with self.queue:
            self.waiting = sorted([*self.waiting, *jobs], key=lambda job: -job.priority)
        with contextlib.suppress(RuntimeError):  # the threads that submit jobs take no more when Snakemake ends
            for _ in jobs:
                self.submissions.submit(self._feed)

    def _wait_for_ends(self, waiting: list[tuple[str, JobExecutorInterface]]) -> None:
        """Queue each job once the Slurm job of an earlier start that did its work has saved the work and ended."""
        reminder = Reminder()
        while waiting and not self.ending.is_set():
            if reminder.due():
                numbers = ", ".join(number for number, _ in waiting)
                told = "Slurm jobs of an earlier start are still ending, and their work waits for it"
                self.logger.info(f"{told}: {numbers}")
            try:
                left = {job.id for job in my_jobs() if job.live}
            except SlurmError as error:
                self._tell_unreachable(error)
            else:
                self._enqueue([job for number, job in waiting if number not in left])
                waiting = [(number, job) for number, job in waiting if number in left]
            self.ending.wait(self.executor_settings.poll)

    def _feed(self) -> None:
        """Submit one queued job once Slurm has room. One thread does so at a time: two could change the order."""
        with self.submitting:
            while not self.ending.is_set():
                job = self.waiting[0]
                self.freed.clear()
                try:
                    self.run_job(job)
                except NoRoom as limit:
                    self.limit = str(limit)
                    self.freed.wait(TRY_EVERY)
                else:
                    self.limit = None
                    with self.queue:
                        self.waiting = [each for each in self.waiting if each is not job]
                    return

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job, or take over the Slurm job that does it. Raises NoRoom; Snakemake is told every other error."""
        try:
            slot, how = self.slots.pop(self._name(job), None), TAKEN_OVER
            if slot is None:
                if self._no_room:
                    raise StudyError(self._no_room)
                slot, how = self._submitted(job)
                self.slots |= dict.fromkeys(slot.names[1:], slot)
            self.inside[slot.number] = slot
            log = self._log(slot.names[0], slot.number)
            self.logger.info(f"{words_of(job)}: {how} Slurm job {slot.number} (log: {log})")
            self.report_job_submission(SubmittedJobInfo(job, slot.number, {"slot": slot}))
        except NoRoom:
            raise
        except Exception as error:  # any error: Snakemake would wait for ever for a job without a report
            self.logger.debug("submission", exc_info=True)
            if isinstance(error, StudyError | SlurmError):  # errors that may pass have been waited for
                last_attempt(job)
            self.report_job_error(SubmittedJobInfo(job), msg=f"{words_of(job)}: {error}\n")

    def _submitted(self, job: JobExecutorInterface) -> tuple[Slot, str]:
        """Submit a job. Return its Slurm job, and words for the log on how that Slurm job came about."""
        name = self._name(job)
        # The controller may have accepted a submission without an answer: before another one, we look for the job.
        may_exist = job.attempt > 1 or name in self.unconfirmed
        while not self.ending.is_set():
            try:
                if may_exist and (live := self._live(job)):
                    return live, TAKEN_OVER
                may_exist = True
                parts = self._parts(job)
                request = self._request(parts)
                number = number_in(self._submit(parts, within_limits(request, self.cluster)))
                names = tuple(map(self._name, parts))
                slot = self._live(job) if number is None else Slot(number, names, request.mem_mb)
                if slot is None:
                    raise StudyError("sbatch did not say the number of the job")
                if self.ending.is_set():
                    self._cancel(slot.number)
                    break
                return slot, "submitted as"
            except SlurmError as error:
                if error.job_limit:
                    raise NoRoom(error.job_limit) from None
                self.unconfirmed.add(name)
                self.ending.wait(max(2, self.executor_settings.poll))
                if not error.may_pass and not self._is_live(job):
                    raise
                self._tell_unreachable(error)
        raise StudyError("not submitted: Snakemake is ending")

    @cached_property
    def _no_room(self) -> str | None:
        """What to say if the disk has too little room, which also stops Snakemake; None if there is enough.

        Read before the first submission and not earlier: the model decides, and this start may just have fetched it.
        """
        results = self.study.results
        runs = [job.wildcards.run for job in needed_jobs(self.workflow) if job.rule.name == "train"]
        specs = {run: self.study.runs[run].arm_spec for run in runs if run in self.study.runs}
        problem = no_room((results / self.study.model_file).parent, results, specs, self.workflow.nodes)
        if problem:
            self.workflow.scheduler.executor_error_callback(WorkflowError(problem))
        return problem

    def _parts(self, job: JobExecutorInterface) -> list[JobExecutorInterface]:
        """A job, and the jobs that can follow it in the same Slurm job by the present state of the study."""

        def ready(job: JobExecutorInterface) -> list[JobExecutorInterface]:
            """The jobs that need an output of `job`, and no output of another job that still has to run."""
            free = [after for after in self.followers(job) if self._name(after) not in self.slots]
            others = {file for each in needed_jobs(self.workflow) if each is not job for file in each.output}
            return [after for after in free if others.isdisjoint(after.input)]

        return bundles([job], self.site, ready)[0]

    def _submit(self, parts: list[JobExecutorInterface], request: Request) -> str:
        """Submit a Slurm job that does `parts`, and return the answer of `sbatch`."""
        name, *then = map(self._name, parts)
        logs = self._log(name, "%j").parent
        for part in (name, *then):
            self._log(part, "%j").parent.mkdir(parents=True, exist_ok=True)
        script = batch_script(list(map(self._part, parts)), os.getcwd(), self.workflow.execution_settings.latency_wait)
        digests = [digest_of(job.params) for job in parts]
        job_comment = comment(words_of(parts[0]), digests[0], dict(zip(then, digests[1:], strict=True)))
        command = ["sbatch", "--parsable", f"--output={output_pattern(logs)}", "--open-mode=append", "--export=ALL"]
        command += [f"--chdir={os.getcwd()}", *arguments(request, self.site.gpus_by)]
        command += ["--requeue" if self.executor_settings.requeue else "--no-requeue"]
        command += [f"--job-name={name}", f"--comment={job_comment}"]
        self.logger.debug(f"sbatch call: {shlex.join(command)}\n{script}")
        return run_slurm_command(*command, given=script, timeout=SUBMISSION)

    def _request(self, parts: list[JobExecutorInterface]) -> Request:
        return request_of(parts, self.site, lambda job: self.least_memory.get(self._name(job), 0))

    def _part(self, job: JobExecutorInterface) -> Part:
        """The part of a Slurm job that does a job."""
        outputs = [str(file) for file in (*job.output, *job.log)]
        inputs = [str(file) for file in job.get_wait_for_files()]
        benchmark = str(job.benchmark) if job.benchmark else None
        logs = self._log(self._name(job), "%j").parent
        if job.shellcmd is None:
            raise StudyError(f"{job.rule.name}: only a rule with a shell command can be submitted to Slurm")
        command = f"{shell_prefix(Path(sys.executable).parent).format()}{job.shellcmd}"
        return Part(command, inputs, outputs, job.threads, logs, benchmark)

    def _live(self, job: JobExecutorInterface) -> Slot | None:
        """The Slurm job with a job's name that waits or runs; None where there is none, or it was just cancelled."""
        live = live_jobs(self.of_study, my_jobs()).get(self._name(job))
        if live is None or live.id in self.cancelled:
            return None
        return slot_of(live, map(self._name, self.followers(job)))

    def _is_live(self, job: JobExecutorInterface) -> bool:
        try:
            return self._live(job) is not None
        except SlurmError:
            return True  # not known: assume that the job lives

    def cancel(self) -> None:
        """Cancel the Slurm jobs of this start, also those that are being submitted."""
        self.ending.set()
        self.freed.set()
        self.submissions.shutdown(wait=True, cancel_futures=True)
        super().cancel()

    def shutdown(self) -> None:
        """Stop watching jobs: Snakemake has none to submit any more."""
        self.submissions.shutdown(wait=True)
        super().shutdown()
        self._delete_old_logs()

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all Slurm jobs in `inside`. `active_jobs` lacks those whose state is just being asked for."""
        if numbers := sorted(self.inside):
            self._cancel(*numbers)

    def _cancel(self, *numbers: str) -> None:
        self.cancelled.update(numbers)
        with contextlib.suppress(SlurmError):
            run_slurm_command("scancel", *numbers)

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the jobs that have not."""
        self.next_seconds_between_status_checks = self.executor_settings.poll
        if self.checked:
            self._tell_limit()
        if not active_jobs:
            return
        try:
            listed = {job.id: job for job in await asyncio.to_thread(my_jobs, 60.0)}
        except SlurmError as error:
            self._tell_unreachable(error)
            for info in active_jobs:
                yield info
            return
        self.unreachable = Reminder()
        for info in active_jobs:
            slot = info.aux["slot"]
            if self._name(info.job) != slot.names[-1] and self._status(info) == 0:
                self.report_job_success(info)  # then Snakemake hands over the next part, and we take over its Slurm job
                continue
            ended = self.outcomes.look(slot.number, listed.get(slot.number))
            if ended is not None and not ended.state:
                ended = await asyncio.to_thread(self._end_of_unlisted, info, ended)
            if ended is None:
                yield info
            elif ended.state == "COMPLETED" or self._status(info) == 0:
                if ended.may_restart:
                    await asyncio.to_thread(self._cancel, info.external_jobid)
                self._succeed(info)
            else:
                await asyncio.to_thread(self._fail, info, ended)

    def _end_of_unlisted(self, info: SubmittedJobInfo, ended: Ended) -> Ended | None:
        """The end of a job that Slurm no longer lists, by its exit status, else `ended`; None if it still lives."""
        with contextlib.suppress(SlurmError):  # Slurm does not know the job any more
            if is_live(info.external_jobid):
                return None
        status = self._status(info)
        if status is None:
            return ended
        return Ended("FAILED" if status else "COMPLETED", f"ended with status {status}")

    def _succeed(self, info: SubmittedJobInfo) -> None:
        """Report that a Slurm job has done its work, and remove its files: its exit statuses, and its log if wished."""
        self.report_job_success(info)
        slot = self._leave(info)
        for name in slot.names:
            log = self._log(name, slot.number)
            with contextlib.suppress(OSError):
                log.with_suffix(".status").unlink(missing_ok=True)
                if not self.executor_settings.keep_successful_logs:
                    log.unlink()

    def _leave(self, info: SubmittedJobInfo) -> Slot:
        """Stop watching a Slurm job. Jobs that would have followed in it are submitted by themselves."""
        slot = self.inside.pop(info.external_jobid, info.aux["slot"])
        for name in slot.names:
            if self.slots.get(name) == slot:
                self.slots.pop(name, None)
        self.freed.set()
        return slot

    def _fail(self, info: SubmittedJobInfo, ended: Ended) -> None:
        """Report a job that failed, and decide whether it gets another attempt."""
        name, number, slot = self._name(info.job), info.external_jobid, self._leave(info)
        log = self._log(slot.names[0], number)
        if ended.may_restart:
            self._cancel(number)
        if ended.state == "OUT_OF_MEMORY":
            self.least_memory[name] = 2 * (slot.mem_mb or self._request([info.job]).mem_mb)
        status = self._status(info)
        permanent = ended.state == "FAILED" and status is not None and is_permanent(status)
        if permanent or not ended.again:
            last_attempt(info.job)
        advice = "; not submitted again, because the error would stay: correct it, then run the same command again"
        message = f"{words_of(info.job)}: Slurm job {number} {ended.why}{advice if permanent else ''}\n"
        self.report_job_error(info, msg=message, aux_logs=[str(log)])

    def _status(self, info: SubmittedJobInfo) -> int | None:
        """Exit status of a job's command; None where the command has not ended or left none."""
        return status_of_part(self._log(self._name(info.job), info.external_jobid).parent, info.external_jobid)

    def _tell_limit(self) -> None:
        """Report that Slurm takes no more jobs because of a limit, and later, once, that it has taken them."""
        if self.limit and self.at_limit.due():
            may_be_size = "; if Slurm has none of your jobs, the job may ask for more than a single job may have"
            self.logger.warning(
                f"warning: Slurm takes no more jobs now ({self.limit}): {len(self.inside):,} jobs are in, "
                f"{len(self.waiting):,} to go; they are submitted as others end"
                f"{may_be_size if self.limit == UNNAMED_LIMIT else ''}"
            )
        elif not self.waiting and self.at_limit.last is not None:
            self.logger.info("Slurm has taken all jobs that waited")
            self.at_limit = Reminder()

    def _tell_unreachable(self, error: SlurmError) -> None:
        if self.unreachable.due():
            self.logger.warning(f"warning: {error}; jobs run on, and Snakemake asks Slurm again until it answers")

    def _delete_old_logs(self) -> None:
        """Delete old logs of this study's failed jobs, but no folder: Slurm fails a job whose log has no folder."""
        days = self.executor_settings.delete_logfiles_older_than
        if days <= 0 or self.executor_settings.keep_successful_logs:
            return
        runs = tuple(run.replace("/", "_") for run in self.study.runs)
        shared = self.executor_settings.logdir is not None
        for log in self.slurm_logdir.glob("*/*/*.log" if shared else "**/*.log"):
            own = log.stem.isdecimal() and (not shared or log.parent.name.startswith(runs))
            with contextlib.suppress(OSError):
                if own and time.time() - log.stat().st_mtime > days * 86400:
                    log.unlink()

    def _name(self, job: JobExecutorInterface) -> str:
        return job_name(self.of_study, job.rule.name, "_".join(job.wildcards))

    def _log(self, name: str, number: str) -> Path:
        """Slurm's log of a job, by the job's name for Slurm. The file with the exit status lies beside it."""
        rule, _, wildcards = name.removeprefix(f"{self.of_study}.").partition(".")
        return self.slurm_logdir / rule / wildcards / f"{number}.log"
