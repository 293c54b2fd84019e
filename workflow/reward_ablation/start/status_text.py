"""Where a study is, as text for a terminal."""

from __future__ import annotations

import textwrap
import time
from collections import Counter

from reward_ablation.start.plan_text import damaged_answers_lines, first_lines, hours_text, plural
from reward_ablation.start.status import SILENT, RunStatus, State, Status
from reward_ablation.study.heartbeat import STARTING, TRAINING, Heartbeat
from reward_ablation.system.plain_values import printable

WIDTH = 110
#: Up to this many runs are listed one by one. Beyond it, finished and unstarted runs are counted by arm, and at most
#: this many arms are listed.
ROWS = 60
#: How many failed jobs other than training are listed, and how many lines of an error are shown.
FAILED_JOBS, LINES_OF_AN_ERROR = 20, 3

#: States whose runs are counted by arm where there are many runs.
_QUIET = {State.DONE, State.STALE, State.NOT_STARTED}


def status_text(status: Status, slurm_silent: str = "") -> str:
    """The whole text: a line of counts, the runs, evaluations, failed jobs other than training, and hours so far.

    `slurm_silent` says why the jobs at Slurm are not known; empty where they are known.
    """
    lines = [f"study {status.study.config.name}, {plural(len(status.runs), 'run')}: {_counts(status.runs)}", ""]
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
    head = f"{each.run.name:{name}}  {each.state:11}  {', '.join(_facts(each, status))}".rstrip()
    lines = textwrap.wrap(head, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    if each.state is State.FAILED:
        last = each.signs.last_line
        without_error = f"the run ended without an error message{_after_step(each)}; "
        without_error += f"last line of its log: {last}" if last else "its log has no text"
        log = f"{status.study.config.root}/logs/train/{each.run.name}.log"
        lines += _error(each.signs.error or without_error, log)
    return lines


def _facts(each: RunStatus, status: Status) -> list[str]:
    """What is known of a run, for its line."""
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
        facts.append(_step(beat))
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
        step = "" if beat.step is None else f" at {_step(beat)}"
        return f"stopped{step}: {printable(beat.why, 200)}"
    if not each.signs.at:
        return "not finished, and without a log"
    return f"no sign{_after_step(each)} for {_duration(now - each.signs.at)}"


def _after_step(each: RunStatus) -> str:
    """` after step 3 of 40`; empty before the first step."""
    beat = each.signs.beat
    return "" if beat is None or beat.step is None else f" after {_step(beat)}"


def _step(beat: Heartbeat) -> str:
    """`step 3 of 40`; `step 3` where an older version did not write the number of steps."""
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
        lines.append(f"arm {arm:{name}}  key {key}  {_counts(of_arm)}{hours}")
    return first_lines(lines, ROWS, "more arms")


def _counts(runs: list[RunStatus]) -> str:
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
