"""The plan as text for a terminal, and in a line."""

from __future__ import annotations

import textwrap
from itertools import groupby

from reward_ablation.planning.plan import Plan, PlannedRun

WIDTH = 100
#: Reasons that are told, arms that are named below one of them, and arms that may be named in all.
REASONS, ARMS_BELOW_A_REASON, ARMS_IN_ALL = 20, 12, 60


def plan_text(plan: Plan) -> str:
    """The plan: a line of counts, each reason with its runs, notes, and an estimate."""
    training = plan.training
    lines = [f"study {plan.name}: {len(training)} of {counted(plan.runs)} to train", ""]
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
    lines += ["", *plan.notes[:REASONS]] if plan.notes else []
    if len(plan.notes) > REASONS:
        lines.append(f"and {len(plan.notes) - REASONS} more arms like these")
    if plan.unneeded:
        there = f"{_plural(plan.unneeded, 'finished run')} of other configs here"
        lines += ["", f"{there}; `snakemake prune` lists what is not needed"]
    if training:
        lines += ["", estimate_text(plan)]
    return "\n".join(lines)


def summary(plan: Plan) -> str:
    """The plan in a line: how many runs, why, and for how long."""
    reasons = list(dict.fromkeys(planned.why for planned in plan.training))
    why = "; ".join(reasons[:2]) + (f"; {_plural(len(reasons) - 2, 'more reason')}" if len(reasons) > 2 else "")
    return f"study {plan.name}: {counted(plan.training)} to train ({why}); {estimate_text(plan)}"


def estimate_text(plan: Plan) -> str:
    """GPU hours (CPU hours, where a run has no GPU) of the training to come."""
    launches = [planned.run.launch for planned in plan.training]
    on_gpus = launches[0].gpus > 0  # as in all runs of a study, or in none
    unit = "GPU hours" if on_gpus else "CPU hours"
    where = _where(sorted({launch.all_gpus or launch.process_count for launch in launches}), on_gpus)
    estimate = plan.estimate
    if estimate.unknown == len(launches):
        where = where or ("on 1 GPU" if on_gpus else "on the CPU")
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
