"""The status of a study: the states of its runs, its evaluations, and failed jobs other than training.

`reward-ablation status` prints it, and `watch` reads it again and again. The states are read from the files on disk,
not from a Snakemake that may be at work. The process that trains a run holds the lock in the run's folder and writes a
heartbeat there, its log ends with its error, and Slurm knows which jobs wait.
"""

from __future__ import annotations

import shutil
import socket
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from reward_ablation.cluster.command import SlurmError
from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.slurm import SlurmJob, my_jobs, run_jobs
from reward_ablation.start.decide import DONE, Decisions, PlannedRun, goes_on, stale_because
from reward_ablation.start.declarations import Declarations
from reward_ablation.start.history import Damage, is_held
from reward_ablation.start.plan import damaged_answers_lines, first_lines, hours_text, plural
from reward_ablation.start.signs import BRIEF, NO_SIGNS, Signs, read_attempts, read_log_end, read_signs
from reward_ablation.study.heartbeat import STARTING, TRAINING, Heartbeat
from reward_ablation.study.reward_models import model_file
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, WORK, evaluation_file, gpus_of
from reward_ablation.study.study import Run, Study
from reward_ablation.system.plain_values import printable
from reward_ablation.system.strict_text import load_json

#: Seconds that Slurm has to answer, while the user waits.
SLURM_SECONDS = 10.0
#: Where neither lock nor job shows whether a process is at work: a run with no heartbeat and no log line for this many
#: seconds counts as interrupted. A process in training beats every few seconds, but may load a model for minutes.
SILENT = 600.0
#: Slurm's states of a job whose processes exist. In every other state of a live job that is not ending, the job waits.
_RUNS = {"RUNNING", "RESIZING", "SIGNALING", "STOPPED", "SUSPENDED"}
#: Characters of a line of the text.
WIDTH = 110
#: Up to this many runs are listed one by one. Of more, finished and unstarted runs are counted, for as many arms.
ROWS = 60
#: How many failed jobs other than training are listed, and how many lines of an error are shown. Free choices.
FAILED_JOBS, LINES_OF_AN_ERROR = 20, 3


class State(StrEnum):
    """The state of a run. Texts list the states in this order."""

    RUNNING = "running"  # a process or a started Slurm job has it
    QUEUED = "queued"  # its Slurm job waits
    FAILED = "failed"  # its last attempt ended with an error, or was killed
    INTERRUPTED = "interrupted"  # it stopped in order, or is silent where no lock tells; its work is kept
    DIVERGED = "diverged"  # a number of its training became NaN or infinite; starts leave it out
    DONE = "done"
    STALE = "out of date"  # of other code, data or config, or with a broken record; it is trained again
    DAMAGED = "damaged"  # trained, but a file is damaged; it is trained again
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class RunStatus:
    """The state of a run, with what is known of it."""

    run: Run
    state: State
    signs: Signs = NO_SIGNS  # heartbeat and end of the log, of the present attempt, or of the last if none is running
    #: The Slurm job that runs or waits; else the last job that did not end well, as long as Slurm remembers it.
    job: SlurmJob | None = None
    host: str | None = None  # the other machine that trains the run, by the run's lock; None for this one or none
    held: bool | None = None  # whether a process holds the run's lock; None where not known, or a start trains no more
    attempts: int | None = None  # number of attempts so far; None where not known, or a start trains no more
    goes_on_from: int = 0  # step of the checkpoint that the next attempt starts from; 0 without a checkpoint
    hours: float = 0.0  # GPU hours so far; CPU hours for a run without a GPU
    finished: float | None = None  # when a run that stays finished, in seconds since 1970; None for all others
    #: For a finished run: why it is trained again, or why it is kept although its code or data differ. For a damaged
    #: run: the damage. For a diverged one: at which step, and what to do.
    why: str = ""


@dataclass(frozen=True)
class StatusReader:
    """Everything that was read to tell the states of a study's runs."""

    decisions: Decisions
    #: Whether a process holds the lock of each run. The locks are read before the records, so a run that finishes in
    #: between counts as running, and never as failed.
    held: dict[str, bool | None]
    now: float  # seconds since 1970
    #: By the run's name: the Slurm job that waits or runs, or the last one that did not end well.
    jobs: dict[str, SlurmJob]

    def status(self, planned: PlannedRun) -> RunStatus:
        run, history, present = planned.run, self.decisions.history, self.decisions.present
        folder = self.decisions.root / "runs" / run.name
        record = history.records.get(run.name)
        record = record or history.set_aside.get(run.name, record)
        recorded_at = None if record is None else _changed(folder / RECORD) or _changed(folder / HIDDEN_RECORD)
        on_gpus = run.arm_spec.gpus > 0
        if not planned.trains:
            attempts = (record or {}).get("attempts") or (read_attempts(folder / WORK) if planned.diverged else [])
            why = "" if planned.why == DONE else planned.why
            ended = State.DIVERGED if planned.diverged else State.DONE
            return RunStatus(run, ended, hours=hours_of(attempts, on_gpus), finished=recorded_at, why=why)
        attempts = read_attempts(folder / WORK)
        signs = read_signs(folder / WORK, self.decisions.root / "logs" / "train" / f"{run.name}.log")
        job = self.jobs.get(run.name)
        held = self.held[run.name]
        has_folder = folder.is_dir()
        state = self._at_work(signs, job, held, has_folder)
        state = state or self._at_rest(planned, signs, held, has_folder, recorded_at)
        work = history.interrupted.get(run.name)
        job_wrote = job is not None and job.start is not None and signs.at >= job.start
        if state is State.RUNNING and held is False and not job_wrote:
            signs = NO_SIGNS  # an earlier attempt wrote these: the present one has not begun
        begun = state is not State.RUNNING or (signs.beat is not None and signs.beat.step is not None)
        return RunStatus(
            run=run,
            state=state,
            signs=signs,
            job=job if job is not None and (job.live or _ended_attempt(job, signs, state)) else None,
            host=_other_host(folder / LOCK) if held else None,
            held=held,
            attempts=(len(attempts) + (not begun)) if attempts else None,
            goes_on_from=work.step if work and goes_on(work, run, present) else 0,
            hours=hours_of([*((record or {}).get("attempts") or []), *attempts], on_gpus),
            why=planned.damage or (stale_because(record, run, present) or "" if record is not None else ""),
        )

    def _at_work(self, signs: Signs, job: SlurmJob | None, held: bool | None, has_folder: bool) -> State | None:
        """RUNNING or QUEUED; None where nothing shows that the run has a process or a Slurm job."""
        if held or (job is not None and job.state in _RUNS):
            return State.RUNNING
        if job is not None and job.live and not job.ending:
            return State.QUEUED
        if signs.log is None or signs.error or signs.stopped or not has_folder:
            return None
        silent = self.now - signs.at
        starting = not signs.last_line and silent < BRIEF
        return State.RUNNING if starting or (held is None and silent < SILENT) else None

    def _at_rest(
        self, planned: PlannedRun, signs: Signs, held: bool | None, has_folder: bool, recorded_at: float | None
    ) -> State:
        """The state of a run neither done nor at work; `recorded_at` is the time of an outdated or damaged record."""
        if signs.log is not None and signs.error and signs.log.changed > (recorded_at or 0):
            return State.FAILED
        if recorded_at:
            return State.DAMAGED if planned.damage else State.STALE
        if signs.log is None or signs.stopped or not has_folder:
            return State.INTERRUPTED if planned.run.name in self.decisions.history.interrupted else State.NOT_STARTED
        # The log has no error. Where the lock tells nothing, the process may have ended or may still be silent.
        return State.INTERRUPTED if held is None else State.FAILED


def _ended_attempt(job: SlurmJob, signs: Signs, state: State) -> bool:
    """Whether a run's last attempt ended with this job."""
    if state in (State.RUNNING, State.QUEUED):
        return False
    return not signs.at or job.end is None or signs.at <= job.end + BRIEF


def hours_of(attempts: list[dict[str, Any]], on_gpus: bool) -> float:
    """GPU hours of a run's attempts; CPU hours for a run without a GPU."""
    seconds = 0.0
    for attempt in attempts:
        hardware = attempt.get("hardware", {})
        on_cpu = hardware.get("processes", 1) * attempt.get("threads", 1)
        seconds += attempt.get("wall_seconds", 0) * (gpus_of(attempt) if on_gpus else on_cpu)
    return seconds / 3600


def _other_host(lock: Path) -> str | None:
    """Host of the process that holds a lock, by the lock's file; None for this host, or where the file does not say."""
    try:
        host = str(load_json(lock.read_bytes())["host"])
        return None if host == socket.gethostname() else host
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _changed(path: Path) -> float | None:
    """When a file was last changed, in seconds since 1970; None where it cannot be known."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


@dataclass(frozen=True)
class Job:
    """A job other than training: what it does, its output and its log. Paths are relative to the results folder."""

    what: str
    output: str
    log: str
    error: str = ""


@dataclass(frozen=True)
class Status:
    study: Study
    now: float  # seconds since 1970
    runs: list[RunStatus]  # all runs, in the study's order
    #: Number of files of answers that are there and stay, of `evaluations` in all. A run has one file for each
    #: evaluation set, and one more for all models that it kept.
    evaluated: int
    evaluations: int
    #: The problem of each damaged file of answers of the base model or a done run, by path below the results folder.
    damaged_answers: dict[str, str]
    #: Jobs of `_other_jobs` whose output is missing and whose log ends with an error; `log` has the results folder.
    failed_jobs: list[Job]
    on_gpus: bool  # whether hours are GPU hours
    looks: str  # a line with a sequential study's looks (its tests at planned numbers of seeds); empty without any


def ask_slurm() -> tuple[list[SlurmJob], str]:
    """This user's Slurm jobs, and why they are not known: empty unless Slurm is installed and does not answer."""
    if shutil.which("squeue") is None:
        return [], ""
    try:
        return my_jobs(SLURM_SECONDS), ""
    except SlurmError as error:
        return [], str(error)


def read_status(decisions: Decisions, jobs: list[SlurmJob], now: float | None = None) -> Status:
    """Read the status. `jobs` are the user's Slurm jobs, of any study. Locks are read before anything is decided."""
    study, root = decisions.study, decisions.root
    held = {name: is_held(root / "runs" / name / LOCK) for name in study.runs}
    reader = StatusReader(decisions, held, now or time.time(), _jobs_of_runs(study, root, jobs))
    runs = [reader.status(planned) for planned in decisions.runs.values()]
    damage, models = decisions.damage, ["base", *(each.run.name for each in runs if each.state is State.DONE)]
    answers = [file for model in models for file in damage.answer_files(model)]
    damaged = {file: what for model in models for file, what in damage.of_answers(model).items()}
    return Status(
        study=study,
        now=reader.now,
        runs=runs,
        evaluated=sum((root / file).is_file() for file in answers if file not in decisions.answers_again),
        evaluations=(len(study.sound_runs) + 1 + len(study.keeping_runs)) * len(study.datasets),
        damaged_answers=damaged,
        failed_jobs=list(_failed_jobs(_other_jobs(study, damage, models), root, study.config.root)),
        on_gpus=any(run.arm_spec.gpus for run in study.runs.values()),
        looks=Declarations(study).looks_line(decisions.standings),
    )


def _jobs_of_runs(study: Study, root: Path, jobs: list[SlurmJob]) -> dict[str, SlurmJob]:
    """For each run, the Slurm job that waits or runs, or else the last one if it did not end well."""
    of_study = prefix(study.config.name, root)
    names = {job_name(of_study, "train", run): run for run in study.runs}
    ended = sorted((job for job in jobs if not job.live and job.name in names), key=lambda job: job.end or 0)
    last = {names[job.name]: job for job in ended}
    failed = {run: job for run, job in last.items() if job.state != "COMPLETED"}
    return failed | run_jobs(of_study, study.runs, jobs)


def _other_jobs(study: Study, damage: Damage, models: list[str]) -> Iterator[Job]:
    """The jobs other than training, but for tables and figures; answers of `models`: base and the done runs."""
    yield Job("fetch the base model", study.fetched_file, "logs/fetch/base.log")
    if study.demonstrations_file is not None:
        yield Job("prepare the demonstrations", study.demonstrations_file, "logs/prepare/sft.log")
        yield Job("learn the demonstrations", study.model_file, "logs/sft/base.log")
    for key in study.reward_models:
        yield Job("fetch a reward model", model_file(key), f"logs/fetch/reward-{key}.log")
    yield Job("prepare the training set", study.problems_file, "logs/prepare/train.log")
    for data in study.datasets:
        yield Job(f"prepare {data}", evaluation_file(data), f"logs/prepare/evaluation/{data}.log")
    for model in models:
        files = damage.answer_files(model)
        missing = [file for file in files if not (damage.root / file).exists()]
        yield Job(f"evaluate {model}", (missing or files)[0], f"logs/evaluate/{model}.log")
    for file in study.scores:
        name = file.removeprefix(f"{study.scores_folder}/").removesuffix(".parquet")
        model, _, data = name.rpartition("/")
        if model in models:
            yield Job(f"score the answers of {model} to {data}", file, f"logs/score/{name}.log")


def _failed_jobs(jobs: Iterable[Job], root: Path, shown_root: str) -> Iterator[Job]:
    """The jobs whose output is missing and whose log ends with an error."""
    for job in jobs:
        log = None if (root / job.output).exists() else read_log_end(root / job.log)
        if log is not None and log.error:
            yield replace(job, log=f"{shown_root}/{job.log}", error=log.error)


#: States whose runs are counted by arm where there are many runs.
_QUIET = {State.DONE, State.STALE, State.NOT_STARTED}


def status_text(status: Status, slurm_silent: str = "") -> str:
    """The whole text. `slurm_silent` says why the jobs at Slurm are not known; empty where they are known."""
    lines = [f"study {status.study.config.name}, {plural(len(status.runs), 'run')}: {counted_states(status.runs)}", ""]
    if status.looks:
        lines += [*textwrap.wrap(status.looks, WIDTH, subsequent_indent="    "), ""]
    many = len(status.runs) > ROWS
    name = max(len(each.run.name) for each in status.runs)
    for each in status.runs:
        if not (many and each.state in _QUIET):
            lines += _row(each, status, name)
    if many:
        lines += ["", *_by_arm([each for each in status.runs if each.state in _QUIET], status)]
    lines += ["", f"evaluations: {status.evaluated} of {status.evaluations} done, the base model's included"]
    lines += damaged_answers_lines(status.study.config.root, status.damaged_answers)
    failed = ["\n".join([f"failed: {job.what}", *_error(job.error, job.log)]) for job in status.failed_jobs]
    lines += first_lines(failed, FAILED_JOBS, "more failed")
    if slurm_silent:
        lines += textwrap.wrap(f"which runs wait at Slurm is not known: {slurm_silent}", WIDTH)
    hours = sum(each.hours for each in status.runs)
    return "\n".join([*lines, f"{hours_text(hours, status.on_gpus)} of training so far"])


def _row(each: RunStatus, status: Status, name: int) -> list[str]:
    """The line of a run, and below it the error of a failed run. `name` is the width of the column of names."""
    head = f"{each.run.name:{name}}  {each.state:11}  {', '.join(facts_of(each, status))}".rstrip()
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    if each.state is State.FAILED:
        lines += _error(failure_of(each), f"{status.study.config.root}/logs/train/{each.run.name}.log")
    return lines


def failure_of(each: RunStatus) -> str:
    last = each.signs.last_line
    known = f"last line of its log: {last}" if last else "its log has no text"
    return each.signs.error or f"the run ended without an error message{_after_step(each)}; {known}"


def facts_of(each: RunStatus, status: Status) -> list[str]:
    if each.state in (State.DONE, State.DIVERGED):
        when = [_when(each.finished)] if each.finished else []
        return [hours_text(each.hours, status.on_gpus), *when, *([each.why] if each.why else [])]
    facts = _progress(each, status.now) if each.state is State.RUNNING else []
    if each.state in (State.STALE, State.DAMAGED):
        facts = [each.why, "will be trained again"]
    if each.state is State.INTERRUPTED:
        facts = [_interrupted(each, status.now)]
    if each.job is not None:
        facts.append(_job(each, status.now))
    elif each.host:
        facts.append(f"on {each.host}")
    if each.state in (State.QUEUED, State.FAILED, State.INTERRUPTED) and each.goes_on_from:
        facts.append(f"goes on from step {each.goes_on_from}")
    elif each.state is State.INTERRUPTED:
        facts.append("starts from the beginning")
    if each.attempts and (each.attempts > 1 or each.state is State.FAILED):
        running = each.state is State.RUNNING
        facts.append(f"attempt {each.attempts}" if running else plural(each.attempts, "attempt"))
    return facts


def _progress(each: RunStatus, now: float) -> list[str]:
    """Facts on a run that is being trained: what its process does, the step, the reward, the time left."""
    signs, beat = each.signs, each.signs.beat
    if signs.last_line.startswith("train: waiting for "):
        return [signs.last_line.removeprefix("train: ")]
    if (signs.error or signs.stopped) and not each.held:
        return ["its process has ended, its Slurm job has not"]
    if beat is None:
        return [STARTING]
    facts = [] if beat.doing == TRAINING else [printable(beat.doing, 60)]
    if beat.step is not None:
        facts.append(step_text(beat))
    if beat.reward is not None:
        facts.append(f"reward {beat.reward:.3f}")
    silent = now - signs.at
    if silent > SILENT or (each.held is None and each.job is None):  # no lock and no job shows that the run is at work
        facts.append(f"no sign for {_duration(silent)}")
    if beat.seconds_per_step and beat.steps is not None and beat.step is not None:
        left = beat.seconds_per_step * (beat.steps - beat.step) - (now - beat.at)
        if left > 0:  # else the last step takes longer than the others did: the time left is not known
            facts.append(f"{_duration(left)} left")
    return facts


def _interrupted(each: RunStatus, now: float) -> str:
    """Where a run was when it was stopped, or when it last gave a sign."""
    beat = each.signs.beat
    if beat is not None and beat.stopped:
        step = "" if beat.step is None else f" at {step_text(beat)}"
        return f"stopped{step}: {printable(beat.why, 200)}"
    if not each.signs.at:
        return "not finished, and without a log"
    return f"no sign{_after_step(each)} for {_duration(now - each.signs.at)}"


def _after_step(each: RunStatus) -> str:
    """` after step 3 of 40`; empty before the first step."""
    beat = each.signs.beat
    return "" if beat is None or beat.step is None else f" after {step_text(beat)}"


def step_text(beat: Heartbeat) -> str:
    """`step 3 of 40`; `step 3` where the number of steps is not known."""
    return f"step {beat.step}" if beat.steps is None else f"step {beat.step} of {beat.steps}"


def _job(each: RunStatus, now: float) -> str:
    """`job 17 on n3`, `job 18 PENDING (Resources), expected by ...`, `job 19 ended: TIMEOUT`."""
    job = each.job
    assert job is not None
    where = f" on {job.nodes or each.host}" if job.nodes or each.host else ""
    if not job.live:
        return f"job {job.id} ended{where}: {job.state}"
    reason = f" ({job.reason})" if job.reason not in ("", "None") else ""
    if each.state is State.QUEUED:
        expected = f", expected by {_when(job.start)}" if job.start and job.start > now else ""
        return f"job {job.id} {job.state}{reason}{expected}"
    return f"job {job.id}{where}" + ("" if job.state == "RUNNING" else f" {job.state}")


def _by_arm(runs: list[RunStatus], status: Status) -> list[str]:
    """A line for each arm with the counts of its runs by state."""
    arms: dict[tuple[str, str], list[RunStatus]] = {}
    for each in runs:
        arms.setdefault((each.run.arm, each.run.key), []).append(each)
    name = max((len(arm) for arm, _ in arms), default=0)
    lines = []
    for (arm, key), of_arm in arms.items():
        total = hours_text(sum(each.hours for each in of_arm), status.on_gpus)
        hours = f", {total}" if any(each.state is State.DONE for each in of_arm) else ""
        lines.append(f"arm {arm:{name}}  key {key}  {counted_states(of_arm)}{hours}")
    return first_lines(lines, ROWS, "more arms")


def counted_states(runs: list[RunStatus]) -> str:
    """`2 running, 1 failed`, in the order of `State`."""
    counts = Counter(each.state for each in runs)
    return ", ".join(f"{counts[state]} {state}" for state in State if counts[state])


def _error(text: str, log: str) -> list[str]:
    lines = textwrap.wrap(
        text, WIDTH, initial_indent="    ", subsequent_indent="    ", max_lines=LINES_OF_AN_ERROR, placeholder=" ..."
    )
    return [*lines, f"    log: {log}"]


def _duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
