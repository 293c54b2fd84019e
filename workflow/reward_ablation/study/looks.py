"""The record of a sequential study's looks, in `study.json`: the decided contrasts, and the seeds of each arm.

A look tests the open contrasts after a planned number of seeds; only these get more. The rule `describe` takes looks
(`design.looks`), and `study.resolve` chooses the seeds of a start by this record alone. A look is never judged again.
If plan, question or a compared arm change after the first look, the looks begin anew, and the record says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from reward_ablation.config.sections.questions import Spending
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.canonical import key_of
from reward_ablation.study.primary import Contrast, Question, declared_now
from reward_ablation.study.standing import Began, Recorded, Since, is_former, recovered, when

#: `different`: by the corrected test; `equivalent`: the repeated interval lies within the margin; `open`: further seeds
#: follow; `undecided`: open after the last look.
Decision = Literal["different", "equivalent", "open", "undecided"]


class ContrastAtLook(Contrast):
    """The result of a contrast at a look."""

    estimate: float
    low: float  # `low` and `high` are the ends of the repeated interval, which holds at all looks together
    high: float
    p: float  # p-value of the estimate at this look
    p_holm: float  # p-value corrected for all looks and contrasts
    boundary: float  # threshold for the smallest p-value of this look (Holm's first step)
    decision: Decision
    seeds: int | None = None  # number of seeds that the estimate is of: fewer than the look's where runs diverged


class Look(Recorded):
    """A look: its number of seeds, its time, the contrasts that were open, and the error that is left after it."""

    seeds: int
    date: str
    contrasts: list[ContrastAtLook]
    error_left: float


class LooksPlan(Recorded):
    """The plan of looks, which is fixed before the first look."""

    looks: list[int]  # number of seeds at each look
    stop: Spending  # how the error is spent over the looks
    margin: float | None  # equivalence margin; None if the study tests no equivalence
    level: float  # the familywise error of all looks together
    question: str  # key of the primary question
    evaluation: str  # key of the evaluation's settings
    arms: dict[str, str]  # key of each arm that the question compares
    by_names: bool = True  # whether names of arms count, as in a record of an earlier version

    @property
    def key(self) -> str:
        """Digest of the plan."""
        content = self.model_dump(include={*LooksPlan.model_fields} - {"by_names"})
        return key_of(content if self.by_names else content | {"arms": sorted(self.arms.values())})


class Declared(LooksPlan, Since):
    """A plan with the time of its record, and the looks taken since."""

    declared: str
    taken: list[Look] = Field([])


AnyDeclared = TypeVar("AnyDeclared", bound=Declared)


class Sequential(Declared):
    """The present plan, and replaced ones, the oldest first. Not `in_force` while the config has a list of seeds."""

    earlier: list[Declared] = Field([])
    in_force: bool = True

    def decision(self, contrast: Contrast) -> tuple[Look, ContrastAtLook] | None:
        """The last look at a contrast, and its result; None before the first look."""
        for look in reversed(self.taken):
            for at_look in look.contrasts:
                if (at_look.arm, at_look.against) == (contrast.arm, contrast.against):
                    # A record of an earlier version lacks the seeds of the estimate.
                    return look, at_look.model_copy(update={"seeds": at_look.seeds or look.seeds})
        return None

    def is_open(self, contrast: Contrast) -> bool:
        """Whether a contrast may get further seeds."""
        last = self.decision(contrast)
        return last is None or last[1].decision == "open"

    @property
    def next_look(self) -> int | None:
        """Number of the next look, from 0; None if all contrasts are decided, or no look is left."""
        if self.taken and not any(each.decision == "open" for each in self.taken[-1].contrasts):
            return None
        return len(self.taken) if len(self.taken) < len(self.looks) else None


def recorded_looks(written: Any) -> Sequential | None:
    """The record in the content of a `study.json`; None if there is none, or it cannot be read."""
    try:
        return Sequential.model_validate(written["sequential"])
    except (ValidationError, KeyError, TypeError):
        return None


def recovered_looks(plan: LooksPlan | None, began: Began) -> Sequential | None:
    """The record, without looks, that a lost `study.json` had of this plan by the records of runs; None without one."""
    found = plan and recovered("sequential", plan.key, began())
    return Sequential(**plan.model_dump(), **found.since) if plan and found else None


def declared_looks(plan: LooksPlan | None, before: Sequential | None, runs: Path) -> Sequential | None:
    """The record to write: `before` if the plan is the same or None, else a new one, which keeps a plan with looks."""
    if plan is None or (before is not None and before.key == plan.key):
        return before and _renamed(before, plan).model_copy(update={"in_force": plan is not None})
    replaced = [] if before is None else [*before.earlier]
    if before is not None and before.taken:
        replaced.append(Declared.model_validate(before.model_dump()))
    earlier = [each for each in replaced if each.key != plan.key]
    returned_to = next((each for each in replaced if each.key == plan.key), None)
    if returned_to is not None:
        return Sequential(**_renamed(returned_to, plan).model_dump(), earlier=earlier)
    return Sequential(**plan.model_dump(), **declared_now(runs).since, earlier=earlier)


def _renamed(record: AnyDeclared, plan: LooksPlan | None) -> AnyDeclared:
    """The record of a plan with the names that its arms have now."""
    if plan is None or plan.by_names:
        return record
    names = {key: name for name, key in plan.arms.items()}
    now = {name: names[key] for name, key in record.arms.items()}
    content = record.model_dump() | {"arms": plan.arms}
    for contrast in (contrast for look in content["taken"] for contrast in look["contrasts"]):
        contrast |= {end: now.get(contrast[end], contrast[end]) for end in ("arm", "against")}
    return type(record).model_validate(content)


def seeds_of_arms(arms: Iterable[str], contrasts: Sequence[Contrast], record: Sequential) -> dict[str, list[int]]:
    """Seeds of each arm: of the first look, and of later ones as long as one of its contrasts is open."""
    numbers = dict.fromkeys(arms, record.looks[0])
    for look, next_number in zip(record.taken, record.looks[1:], strict=False):
        for contrast in look.contrasts:
            if contrast.decision == "open":
                numbers |= {contrast.arm: next_number, contrast.against: next_number}
    return {arm: list(range(number)) for arm, number in numbers.items()}


def looks_text(record: Sequential | None, contrasts: Sequence[Contrast], coming: bool = False) -> str:
    """State of a sequential study in words; empty if it never was one. `coming`: the plan is not on record yet."""
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
        still_open = [str(contrast) for contrast in contrasts if record.is_open(contrast)]
        parts.append(f"open: {', '.join(still_open)}")
    for contrast in contrasts:
        last = record.decision(contrast)
        if last is not None and last[1].decision != "open":
            seeds = last[1].seeds
            parts.append(f"{contrast}: {last[1].decision} with {seeds} seed{'' if seeds == 1 else 's'}")
    since = "to be declared at the next start" if coming else f"declared {record.declared}"
    parts.append(f"{since}, {when(record.runs_then)}")
    if record.earlier:
        parts.append(changed_text(record))
    return "; ".join(parts)


def changed_text(record: Sequential) -> str:
    """A sentence that a plan was changed after its first look; empty if no plan was."""
    if not record.earlier:
        return ""
    last = record.earlier[-1]
    return (
        f"changed after {len(last.taken)} of the looks at {_listed(last.looks)} seeds ({last.stop}): the error of the "
        "looks before and after is not kept together"
    )


def _listed(looks: Sequence[int]) -> str:
    return ", ".join(map(str, looks))


def looks_plan(study: StudyConfig, question: Question, keys: Mapping[str, str], evaluation: str) -> LooksPlan | None:
    """The plan of looks by the keys of arms and of the evaluation; None if the config has a list of seeds."""
    if study.sequential is None:
        return None
    if not question.contrasts:
        raise ValueError("seeds.looks: there is no contrast to decide, as the study has one arm; write a list of seeds")
    if own := [arm for arm, seeds in study.arms.seeds.items() if seeds]:
        raise ValueError(f"arms.seeds.{own[0]}: seeds.looks decides the seeds of each arm; take one of the two out")
    compared = {arm for contrast in question.contrasts for arm in (contrast.arm, contrast.against)}
    arms = {arm: key for arm, key in keys.items() if arm in compared}
    are_alike = len({*arms.values()}) < len(arms)
    return LooksPlan(
        looks=study.sequential.looks,
        stop=study.sequential.stop,
        margin=study.statistics.equivalence_margin,
        level=round(1 - study.confidence, 9),
        question=(question.by_names("arm_keys") if are_alike else question).key,
        evaluation=evaluation,
        arms=arms,
        by_names=are_alike,  # names alone tell arms of equal specs apart
    )


def as_on_record(plan: LooksPlan, question: Question, before: Sequential | None, began: Began) -> LooksPlan:
    """The plan; with the key that an earlier version gave its question, if the plan is on record by that key."""
    _, key_by_arms, key_by_names = question.keys
    formers = [] if plan.by_names else [plan.model_copy(update={"question": key_by_arms})]
    formers.append(plan.model_copy(update={"question": key_by_names, "by_names": True}))
    on_record = {each.key for each in [*before.earlier, before]} if before else set()
    known = (each for each in formers if is_former("sequential", plan.key, each.key, on_record, began))
    return next(known, plan)
