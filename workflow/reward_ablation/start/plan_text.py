"""The plan as text for a terminal, and in a line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from reward_ablation.start.evaluations import RULES
from reward_ablation.start.plan import Plan, PlannedRun
from reward_ablation.start.stale import CODE_CHANGED

WIDTH = 100
#: Reasons that are told, arms that are named below one of them, and arms that may be named in all.
REASONS, ARMS_BELOW_A_REASON, ARMS_IN_ALL = 20, 12, 60
#: Damaged runs that are listed, and damaged files of answers.
DAMAGED_RESULTS = 20


def plan_text(plan: Plan, memory: Sequence[str] = ()) -> str:
    """The plan: a line of counts, each reason with its runs, what is damaged, notes, and estimates.

    Parameters
    ----------
    plan : Plan
    memory : sequence of str
        Lines on the GPU memory that the runs will take.
    """
    training = plan.training
    evaluations = f", {_plural(plan.evaluations.total, 'evaluation')} to make" if plan.evaluations.total else ""
    lines = [f"study {plan.name}: {len(training)} of {counted(plan.runs)} to train{evaluations}", ""]
    by_reason: dict[tuple[bool, str], list[PlannedRun]] = {}
    for planned in plan.runs:
        by_reason.setdefault((not planned.trains, planned.why), []).append(planned)
    reasons = sorted(by_reason, key=lambda reason: reason[0])  # what trains comes first
    most = max(2, min(ARMS_BELOW_A_REASON, ARMS_IN_ALL // len(reasons)))
    if sum(len(arms_of(by_reason[reason])) for reason in reasons) <= ARMS_IN_ALL:
        most = ARMS_IN_ALL
    name = max(len(planned.run.arm) for planned in plan.runs)
    for waits, why in reasons[:REASONS]:
        runs = by_reason[waits, why]
        head = f"{'no training' if waits else 'train'}, {counted(runs)}: {why}"
        lines += textwrap.wrap(head, WIDTH, subsequent_indent="    ")
        arms = arms_of(runs)
        lines += [
            f"    arm {arm:{name}}  key {key}  {seeds(numbers)}" for (arm, key), numbers in list(arms.items())[:most]
        ]
        if len(arms) > most:
            lines.append(f"    and {len(arms) - most} more arms")
    if len(reasons) > REASONS:
        others = [planned for reason in reasons[REASONS:] for planned in by_reason[reason]]
        lines.append(f"and {counted(others)} for {_plural(len(reasons) - REASONS, 'more reason')}")
    if any(planned.why.startswith(CODE_CHANGED) for planned in plan.training):
        lines += ["", "to keep runs of other training code: start with --rerun-triggers mtime input"]
    damaged = damage_lines(plan)
    lines += ["", *damaged] if damaged else []
    lines += ["", *plan.notes[:REASONS]] if plan.notes else []
    if len(plan.notes) > REASONS:
        lines.append(f"and {len(plan.notes) - REASONS} more arms like these")
    if plan.unneeded:
        there = f"{_plural(plan.unneeded, 'finished run')} of other configs here"
        lines += ["", f"{there}; `snakemake prune` lists what is not needed"]
    if training:
        lines += ["", estimate_text(plan), *memory]
    if plan.evaluations.total:
        lines += [*([] if training else [""]), evaluations_text(plan)]
    return "\n".join(lines)


def summary(plan: Plan) -> str:
    """The plan in a line: how many runs, why, and for how long, and the evaluations."""
    parts = []
    if plan.training:
        reasons = list(dict.fromkeys(planned.why for planned in plan.training))
        why = "; ".join(reasons[:2]) + (f"; {_plural(len(reasons) - 2, 'more reason')}" if len(reasons) > 2 else "")
        parts = [f"{counted(plan.training)} to train ({why})", estimate_text(plan)]
    if plan.evaluations.total:
        parts.append(evaluations_text(plan))
    return f"study {plan.name}: {'; '.join(parts)}"


def damage_lines(plan: Plan) -> list[str]:
    """A line for each run and each file of answers that is made again because of damage."""
    unit = _unit(plan)
    lines = []
    for planned in plan.training:
        if planned.damage:
            hours = "" if planned.hours is None else f" ({_number(planned.hours)} {unit})"
            place = f"{plan.folder}/runs/{planned.run.name}"
            lines.append(f"damaged: {place}/{planned.damage}; the run is trained again{hours}")
    return [*_first_lines(lines, "more damaged run"), *damaged_answers_lines(plan.folder, plan.damaged_answers)]


def damaged_answers_lines(folder: str, damaged: dict[str, str]) -> list[str]:
    """A line for each damaged file of answers.

    Parameters
    ----------
    folder : str
        The results folder, as the config has it.
    damaged : dict of str to str
        What is wrong, by path from the results folder.
    """
    lines = [f"damaged: {folder}/{file} {what}; the answers are made again" for file, what in damaged.items()]
    return _first_lines(lines, "more damaged file")


def _first_lines(lines: list[str], what: str) -> list[str]:
    """The first lines, and the number of the others."""
    others = len(lines) - DAMAGED_RESULTS
    return [*lines[:DAMAGED_RESULTS], *([f"and {_plural(others, what)}"] if others > 0 else [])]


def evaluations_text(plan: Plan) -> str:
    """Number of evaluations to come, what they evaluate, and their GPU hours or CPU hours."""
    evaluations = plan.evaluations
    kinds = ", ".join(
        f"{evaluations.counts[rule]} {what}" for rule, what in RULES.items() if rule in evaluations.counts
    )
    text = f"{_plural(evaluations.total, 'evaluation')} to make: {kinds}; "
    if evaluations.unknown == evaluations.total:
        return f"{text}{_unit(plan)}: nothing to estimate from, no evaluation on these data is on record"
    earlier = _plural(evaluations.earlier, "earlier evaluation")
    text += f"about {_number(evaluations.device_hours)} {_unit(plan)}, from {earlier}"
    return text + (f"; {evaluations.unknown} of them of unknown length" if evaluations.unknown else "")


def _unit(plan: Plan) -> str:
    return "GPU hours" if plan.on_gpus else "CPU hours"


def estimate_text(plan: Plan) -> str:
    """GPU hours (CPU hours, where a run has no GPU) of the training to come."""
    launches = [planned.run.launch for planned in plan.training]
    unit = _unit(plan)
    where = _where(sorted({launch.all_gpus or launch.process_count for launch in launches}), plan.on_gpus)
    estimate = plan.estimate
    if estimate.unknown == len(launches):
        where = where or ("on 1 GPU" if plan.on_gpus else "on the CPU")
        return f"{unit}: nothing to estimate from, no run of this study has finished {where}"
    per_step = estimate.hours * 3600 / estimate.steps if estimate.steps else 0
    text = f"about {_number(estimate.device_hours)} {unit}: {estimate.steps} steps of {_number(per_step)} s"
    text += f"{where and f' {where}'}, from {_plural(estimate.earlier, 'finished run')}"
    return text + (f"; {_plural(estimate.unknown, 'run')} more, of unknown length" if estimate.unknown else "")


def _where(processes: list[int], on_gpus: bool) -> str:
    """`on 2 to 4 GPUs`, `in 2 processes`; nothing where each run has one."""
    if processes == [1]:
        return ""
    number = f"{processes[0]} to {processes[-1]}" if len(processes) > 1 else f"{processes[0]}"
    return f"on {number} GPUs" if on_gpus else f"in {number} processes"


def counted(runs: list[PlannedRun]) -> str:
    """`1 run`, `4 runs`."""
    return _plural(len(runs), "run")


def arms_of(runs: list[PlannedRun]) -> dict[tuple[str, str], list[int]]:
    """Seeds by arm and key."""
    arms: dict[tuple[str, str], list[int]] = {}
    for planned in runs:
        arms.setdefault((planned.run.arm, planned.run.key), []).append(planned.run.seed)
    return arms


def seeds(numbers: list[int]) -> str:
    """`seed 3`, `seeds 0-4, 7`."""
    ordered = sorted(numbers)
    parts = []
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        row = [number for _, number in group]
        parts.append(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}")
    return f"seed{'s' if len(ordered) > 1 else ''} {', '.join(parts)}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    """Two digits that count: 0.0031, 4.2, 120."""
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
