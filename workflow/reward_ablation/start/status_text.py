"""Where a study is, as text for a terminal."""

from __future__ import annotations

import textwrap
import time
from collections import Counter

from reward_ablation.start.plan_text import damaged_answers_lines
from reward_ablation.start.run_status import SILENT, RunStatus, State
from reward_ablation.start.status import FailedJob, Status

WIDTH = 110
#: Runs that are all told; of more, those that are done or have not begun are counted by arm, of as many arms at most.
ROWS = 60
#: Failed jobs beside training that are told, and lines of an error.
FAILED_JOBS, LINES_OF_AN_ERROR = 20, 3

#: States of runs that are counted by arm where there are many.
_QUIET = {State.DONE, State.STALE, State.NOT_STARTED}


def status_text(status: Status, slurm_silent: str = "") -> str:
    """A line of counts, the runs, evaluations, what failed beside training, and hours so far.

    Parameters
    ----------
    status : Status
    slurm_silent : str
        Why Slurm's jobs are not known, where there are some.
    """
    counts = Counter(each.state for each in status.runs)
    told = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    lines = [f"study {status.study.config.name}, {_plural(len(status.runs), 'run')}: {told}", ""]
    many = len(status.runs) > ROWS
    name = max(len(each.run.name) for each in status.runs)
    for each in status.runs:
        if not (many and each.state in _QUIET):
            lines += _row(each, status, name)
    if many:
        lines += ["", *_by_arm([each for each in status.runs if each.state in _QUIET], status)]
    lines += ["", f"evaluations: {status.evaluated} of {status.evaluations} done, the base model's included"]
    lines += damaged_answers_lines(status.study.config.root, status.damaged_answers)
    for job in status.failed_jobs[:FAILED_JOBS]:
        lines += _failed_job(job)
    if len(status.failed_jobs) > FAILED_JOBS:
        lines.append(f"and {len(status.failed_jobs) - FAILED_JOBS} more failed")
    if slurm_silent:
        lines += textwrap.wrap(f"which runs wait at Slurm is not known: {slurm_silent}", WIDTH)
    hours = sum(each.hours for each in status.runs)
    return "\n".join([*lines, f"{_hours(hours, status)} of training so far"])


def _row(each: RunStatus, status: Status, name: int) -> list[str]:
    """A line of a run, and below it how it failed."""
    head = f"{each.run.name:{name}}  {each.state:11}  {', '.join(_facts(each, status))}".rstrip()
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    if each.state is State.FAILED and each.log is not None:
        last = each.log.error or f"it ended without a word, its log with: {each.log.last or 'nothing'}"
        lines += [*_error(last), f"    log: {status.study.config.root}/logs/train/{each.run.name}.log"]
    return lines


def _facts(each: RunStatus, status: Status) -> list[str]:
    """What is known of a run, in the order in which it is read."""
    if each.state is State.DONE:
        when = [_when(each.finished)] if each.finished else []
        return [_hours(each.hours, status), *when, *([each.why] if each.why else [])]
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
        facts.append(f"attempt {each.attempts}" if running else _plural(each.attempts, "attempt"))
    return facts


def _progress(each: RunStatus, now: float) -> list[str]:
    """Of a run that is being trained: step, reward, time left."""
    log = each.log
    if log is None or log.step is None:
        waits = log is not None and log.last.startswith("train: waiting for ")
        return [log.last.removeprefix("train: ") if log is not None and waits else "starting"]
    if log.ended and not each.held:
        return ["its process has ended, its job not yet"]
    facts = [f"step {log.step} of {log.steps}"]
    if log.reward is not None:
        facts.append(f"reward {log.reward:.3f}")
    silent = now - log.changed
    if silent > SILENT or (each.held is None and each.job is None):  # nothing but its log tells that it runs
        facts.append(f"last line of its log {_duration(silent)} ago")
    left = (log.seconds_left or 0.0) - max(0.0, silent)
    if left > 0:  # else it takes longer than was thought: how long is not known
        facts.append(f"{_duration(left)} left")
    return facts


def _interrupted(each: RunStatus, now: float) -> str:
    """Where a run was when it was stopped, or when its log last told."""
    log = each.log
    if log is None:
        return "not finished, and without a log"
    step = "" if log.step is None else f"step {log.step} of {log.steps}"
    if log.stopped:
        return f"stopped{step and ' at '}{step}: {log.stopped}"
    return f"no word{step and ' after '}{step} for {_duration(now - log.changed)}"


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
    """Counts of runs by arm."""
    arms: dict[tuple[str, str], list[RunStatus]] = {}
    for each in runs:
        arms.setdefault((each.run.arm, each.run.key), []).append(each)
    name = max((len(arm) for arm, _ in arms), default=0)
    lines = []
    for (arm, key), of_arm in list(arms.items())[:ROWS]:
        counts = Counter(each.state for each in of_arm)
        told = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
        hours = f", {_hours(sum(each.hours for each in of_arm), status)}" if counts[State.DONE] else ""
        lines.append(f"arm {arm:{name}}  key {key}  {told}{hours}")
    if len(arms) > ROWS:
        lines.append(f"and {len(arms) - ROWS} more arms")
    return lines


def _failed_job(job: FailedJob) -> list[str]:
    return [f"failed: {job.what}", *_error(job.error), f"    log: {job.log}"]


def _error(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="    ", subsequent_indent="    ", max_lines=LINES_OF_AN_ERROR, placeholder=" ..."
    )


def _hours(value: float, status: Status) -> str:
    """`0.0031 GPU hours`, `120 CPU hours`."""
    number = f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
    return f"{number} {'GPU' if status.on_gpus else 'CPU'} hours"


def _duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
