"""The choice of `reward-ablation budget` as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reward_ablation.design.budget import TIME_LIMIT
from reward_ablation.start.budget import Budget, Choice, overlay_file, overlay_text, write_overlay
from reward_ablation.start.plan_text import seeds as seeds_in_words
from reward_ablation.start.power_text import number, variance_lines, wrapped
from reward_ablation.start.stale import PresentInputs
from reward_ablation.study.study import Study

#: The text says what this many more hours would gain.
NEXT = 10.0


def budget(study: Study, present: PresentInputs, keys: Mapping[str, Any]) -> str:
    """Choose seeds and sizes within the stated hours, write them to the file of `write`, and return the text."""
    problem = Budget(study, present, keys)
    choice = problem.best(problem.limit)
    unit = "GPU hours" if study.config.launch.gpus else "hours"
    overlay = overlay_text(problem.overlay(choice), f"{problem.limit:g} {unit} for {study.config.name}")
    lines = [
        *heading(problem, choice, unit),
        "",
        *table_of_arms(problem, choice, unit),
        "",
        *table_of_contrasts(problem, choice),
        "",
        *wrapped(next_hours(problem, choice, unit)),
        *(() if choice.is_best else wrapped(f"{TIME_LIMIT} s did not show whether a choice is better still")),
        *(line for arm, why in left_out_texts(problem, choice).items() for line in wrapped(f"left out: {arm}: {why}")),
        "",
        overlay.rstrip(),
    ]
    if "write" in keys:
        path, file = overlay_file(keys["write"], study.root), keys["write"]
        write_overlay(overlay, path)
        lines += ["", f"written: {file}; name it behind the study's file: reward-ablation run STUDY.yaml {file}"]
    return "\n".join(lines)


def heading(problem: Budget, choice: Choice, unit: str) -> list[str]:
    """Lines on the question, and on the assumed variances and costs."""
    question, size = problem.study.question, choice.size
    cut = "" if size == problem.size else f", cut from {in_words(problem, problem.size)}"
    contrasts = f"{len(problem.pairs)} primary contrast{'s' if len(problem.pairs) > 1 else ''}"
    hours = f"{problem.limit:g} {unit.removesuffix('s') if problem.limit == 1 else unit}"
    aim = "the sum of squared margins is smallest" if problem.weights else "the widest is narrowest"
    return [
        *wrapped(
            f"{hours} for {contrasts}, so that {aim}: {question.metric} on {question.dataset} ({question.mode}), "
            f"{in_words(problem, size)}{cut}"
        ),
        "",
        *variance_lines(problem.components),
        *wrapped(f"hours: {problem.costs.source}"),
    ]


def in_words(problem: Budget, size: Any) -> str:
    """A size of the evaluation, such as `500 questions with 4 samples`."""
    return f"{size.questions:,} questions" + (f" with {size.samples} samples" if problem.samples_count else "")


def table_of_arms(problem: Budget, choice: Choice, unit: str) -> list[str]:
    """A row for each arm of the chosen study, and a row with the hours of all arms."""
    seeds = problem.seeds(choice)
    width = max(len(arm) for arm in (*seeds, "all"))
    lines = [f"{'arm':<{width}}  {'seeds':<20}{'finished':>8}{'to train':>10}{unit:>12}"]
    for arm, numbers in seeds.items():
        first = problem.first[arm]
        if numbers and arm != first:
            lines.append(f"{arm:<{width}}  {seeds_text(numbers):<20}the runs of {first}")
        elif numbers:
            finished = len(problem.finished[arm])
            more = len(numbers) - finished
            hours = more * choice.problem.hours[arm]
            lines.append(f"{arm:<{width}}  {seeds_text(numbers):<20}{finished:>8}{more:>10}{hours:>12.2f}")
    if choice.problem.fixed:
        lines.append(f"{'':<{width}}  {'finished runs, evaluated at the new size':<38}{choice.problem.fixed:>12.2f}")
    return [*lines, f"{'all':<{width}}  {'':<38}{choice.problem.cost(choice.seeds):>12.2f}"]


def seeds_text(numbers: list[int]) -> str:
    """Seeds without the word `seeds`: `0-4, 7`."""
    return seeds_in_words(numbers).partition(" ")[2]


def table_of_contrasts(problem: Budget, choice: Choice) -> list[str]:
    """Rows with the expected half-length of each contrast's interval, and the smallest effect that its test finds."""
    pairs, precision = choice.problem.kept(choice.seeds), choice.problem.precision
    names = [f"{one} against {other}" for one, other in pairs]
    width = max(map(len, [*names, "contrast"]))
    lines = [f"{'contrast':<{width}}  {'interval':>10}{'found':>10}"]
    for name, pair in zip(names, pairs, strict=True):
        margin = precision.margin(pair, choice.present)
        effect = precision.detectable(pair, choice.present, len(pairs))
        lines.append(f"{name:<{width}}  {'±' + number(margin):>10}{number(effect):>10}")
    note = (
        "interval: expected half of its length. found: smallest effect with a power of 80 %, at the first level of "
        "Holm's test."
    )
    return [*lines, *wrapped(note)]


def next_hours(problem: Budget, choice: Choice, unit: str) -> str:
    """What ten more hours would gain."""
    later = problem.best(problem.limit + NEXT)
    before, after = widest(choice), widest(later)
    seeds = [
        f"{arm} {choice.seeds[arm]} to {seeds_later}"
        for arm, seeds_later in later.seeds.items()
        if seeds_later != choice.seeds[arm]
    ]
    changes = [*seeds, *([f"{in_words(problem, later.size)}"] if later.size != choice.size else [])]
    words = f"seeds of {', '.join(changes)}" if seeds else ", ".join(changes) or "nothing"
    return f"ten more {unit}: the widest interval ±{number(before)} becomes ±{number(after)} ({words})"


def widest(choice: Choice) -> float:
    """Half the length of the widest interval."""
    return max(choice.problem.precision.margin(pair, choice.present) for pair in choice.problem.kept(choice.seeds))


def left_out_texts(problem: Budget, choice: Choice) -> dict[str, str]:
    """The arms that get no seeds, each with the reason."""
    return {
        arm: "the hours do not pay for two seeds of all arms"
        if problem.first[arm] in choice.problem.contrasted
        else "in no primary contrast"
        for arm in problem.study.arms
        if not choice.seeds[problem.first[arm]]
    }
