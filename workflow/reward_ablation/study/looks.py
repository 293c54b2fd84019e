"""The record of a sequential study's looks, in `study.json`: which contrasts are decided, which seeds each arm has.

A look is on record as a whole, after all its evaluations, and stays as it is: neither another start nor other code
judges it again. Which seeds a start runs follows from the record alone. Whoever changes the looks, the question or an
arm of the question after the first look begins anew, and the record says so: the error of both together is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from reward_ablation.config.sections.seeds import Spending
from reward_ablation.study.canonical import key_of
from reward_ablation.study.primary import Contrast, finished_runs, utc_now

#: `different`: by the corrected test; `equivalent`: the repeated interval lies within the margin; `open`: further seeds
#: follow; `undecided`: open after the last look.
Decision = Literal["different", "equivalent", "open", "undecided"]


class _Part(BaseModel):
    """A part of the record; keys of later versions are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ContrastAtLook(Contrast):
    """What a look says of a contrast.

    Attributes
    ----------
    low, high : float
        Ends of the repeated interval.
    p : float
        Of the estimator at this look.
    p_holm : float
        Corrected for all looks and contrasts.
    boundary : float
        The p-value below which this contrast would have been decided, were it the first one.
    """

    estimate: float
    low: float
    high: float
    p: float
    p_holm: float
    boundary: float
    decision: Decision


class Look(_Part):
    """A look: the number of seeds, when it was taken, the open contrasts then, and the error that is left after it."""

    seeds: int
    date: str
    contrasts: list[ContrastAtLook]
    error_left: float


class LooksPlan(_Part):
    """What is decided before the first look, as in the config.

    Attributes
    ----------
    margin : float or None
        The equivalence margin.
    level : float
        The familywise error of all looks together.
    question, evaluation : str
        Keys of the primary question, and of the settings of evaluation.
    arms : dict of str to str
        Keys of the arms that the question compares.
    """

    looks: list[int]
    stop: Spending
    margin: float | None
    level: float
    question: str
    evaluation: str
    arms: dict[str, str]

    @property
    def key(self) -> str:
        """Digest of the plan."""
        return key_of(self.model_dump(include={*LooksPlan.model_fields}))


class Declared(LooksPlan):
    """A plan with the time when it was recorded, the finished runs at that time, and the looks that were taken."""

    declared: str
    runs_then: int
    taken: list[Look] = []


class Sequential(Declared):
    """The plan of today. `earlier` are plans that it replaced after their first look, the oldest first.

    `in_force` is False where the config has a list of seeds instead, for one start or for good.
    """

    earlier: list[Declared] = []
    in_force: bool = True

    def decision(self, contrast: Contrast) -> tuple[Look, ContrastAtLook] | None:
        """The last look at a contrast, with what it says; None before the first look."""
        for look in reversed(self.taken):
            for at_look in look.contrasts:
                if (at_look.arm, at_look.against) == (contrast.arm, contrast.against):
                    return look, at_look
        return None

    def is_open(self, contrast: Contrast) -> bool:
        """Whether a contrast may get further seeds."""
        found = self.decision(contrast)
        return found is None or found[1].decision == "open"

    @property
    def next_look(self) -> int | None:
        """Number of the look that comes next, from 0; None where all contrasts are closed, or no look is left."""
        if self.taken and not any(each.decision == "open" for each in self.taken[-1].contrasts):
            return None
        return len(self.taken) if len(self.taken) < len(self.looks) else None


def recorded_looks(written: Any) -> Sequential | None:
    """The record in the content of a `study.json`; None where it has none that can be read."""
    try:
        return Sequential.model_validate(written["sequential"])
    except (ValidationError, KeyError, TypeError):
        return None


def read_recorded_looks(path: Path) -> Sequential | None:
    """The record in a `study.json`; None where there is no such file, or none that can be read."""
    try:
        return recorded_looks(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return None


def declared_looks(plan: LooksPlan | None, before: Sequential | None, runs: Path) -> Sequential | None:
    """The record to write: the present record while the plan stays, else a new record with the time of this moment.

    Parameters
    ----------
    plan : LooksPlan or None
        None where the config has a list of seeds. The record then stays, out of force.
    before : Sequential or None
        What is on record. A plan that was replaced after its first look stays on record. A config that returns to this
        plan has the looks of the plan again.
    runs : Path
        Folder of the study's runs.
    """
    if plan is None or (before is not None and before.key == plan.key):
        return before and before.model_copy(update={"in_force": plan is not None})
    replaced = [] if before is None else [*before.earlier, *([_without_earlier(before)] if before.taken else [])]
    earlier = [each for each in replaced if each.key != plan.key]
    known = next((each for each in replaced if each.key == plan.key), None)
    if known is not None:
        return Sequential(**known.model_dump(), earlier=earlier)
    return Sequential(**plan.model_dump(), declared=utc_now(), runs_then=finished_runs(runs), earlier=earlier)


def _without_earlier(record: Sequential) -> Declared:
    return Declared.model_validate(record.model_dump())


def seeds_of_arms(arms: Iterable[str], contrasts: Sequence[Contrast], record: Sequential) -> dict[str, list[int]]:
    """Seeds of each arm under a record: those of the first look, and of the later looks that its contrasts need.

    An arm of no primary contrast has the seeds of the first look.
    """
    numbers = dict.fromkeys(arms, record.looks[0])
    for look, following in zip(record.taken, record.looks[1:], strict=False):
        for contrast in look.contrasts:
            if contrast.decision == "open":
                numbers |= {contrast.arm: following, contrast.against: following}
    return {arm: list(range(number)) for arm, number in numbers.items()}


def looks_text(record: Sequential | None, contrasts: Sequence[Contrast], coming: bool = False) -> str:
    """Where a sequential study is, in words; empty where the study was never sequential.

    `coming` is for a plan that is not on record yet.
    """
    if record is None:
        return ""
    if not record.in_force:
        return f"not the sequential answers: the study declared looks at {_listed(record.looks)} seeds ({record.stop})"
    parts = [f"looks at {_listed(record.looks)} seeds, {record.stop}"]
    following = record.next_look
    if following is None:
        parts.append(f"finished with look {len(record.taken)}")
    else:
        parts.append(f"next is look {following + 1} of {len(record.looks)}, with {record.looks[following]} seeds")
        still = [str(contrast) for contrast in contrasts if record.is_open(contrast)]
        parts.append(f"open: {', '.join(still)}")
    for contrast in contrasts:
        found = record.decision(contrast)
        if found is not None and found[1].decision != "open":
            parts.append(f"{contrast}: {found[1].decision} with {found[0].seeds} seeds")
    when = "to be declared at the next start" if coming else f"declared {record.declared}"
    parts.append(when + (f", after {record.runs_then} finished runs" if record.runs_then else ", before the first run"))
    if record.earlier:
        parts.append(changed_text(record))
    return "; ".join(parts)


def changed_text(record: Sequential) -> str:
    """That a plan was changed after its first look; empty where none was."""
    if not record.earlier:
        return ""
    last = record.earlier[-1]
    return (
        f"changed after {len(last.taken)} of the looks at {_listed(last.looks)} seeds ({last.stop}): the error of the "
        "looks before and after is not kept together"
    )


def _listed(looks: Sequence[int]) -> str:
    return ", ".join(map(str, looks))
