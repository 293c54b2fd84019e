"""The power of a study as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd

from reward_ablation.design.power import SEEDS, TARGET, Design, Plan, Variance
from reward_ablation.design.variances import CONFIDENCE, Components, Pair
from reward_ablation.study.primary import Question
from reward_ablation.system.plain_values import printable

WIDTH = 110

#: How many contrasts are printed. The table has all.
MOST = 6


def power_text(
    question: Question, plan: Plan, own: Design, effects: Sequence[float], table: pd.DataFrame, files: Sequence[str]
) -> str:
    """The whole text.

    `own` is the study's own design, and `effects` are in units of the metric. `table` has the power of several designs,
    from `plan.table`. `files` has a line for each file of the command.
    """
    confidence, pairs = plan.analysis.confidence, plan.analysis.pairs
    lines = wrapped(
        f"{question.metric} on {question.dataset} ({question.mode}): {own.questions:,} questions"
        + (f" with {own.samples} samples" if question.mode == "sampled" else "")
        + f"; {len(pairs)} primary contrast{'s' if len(pairs) > 1 else ''}, found where p_holm < "
        f"{1 - confidence:g}"
    )
    lines += ["", *variance_lines(plan.components)]
    for pair in pairs[:MOST]:
        lines += ["", *contrast_lines(plan, own, pair, effects, table)]
    if len(pairs) > MOST:
        lines += ["", f"and {len(pairs) - MOST} more contrasts in the table"]
    notes = (
        f"length: mean length of the {100 * confidence:g} % interval, and in brackets the range of 80 % of studies, "
        "by the pilot's estimate of the variance between seeds. found: smallest effect with a power of "
        f"{100 * TARGET:.0f} %. power of +x: chance to find an arm that differs by x from all others, and in "
        "brackets the chances at the ends of the interval of the variance between seeds."
    )
    return "\n".join([*lines, "", *wrapped(notes), "", *map(printable, files)])


def variance_lines(components: Components) -> list[str]:
    """Lines on where the variance components are from, and how uncertain they are."""
    lines = wrapped(f"variances: {printable(components.source)}")
    arms = list(components.means)
    ends = components.seed.ends()
    spread = [of_scale(components, np.sqrt(end)) for end in (components.seed.variance, *ends)]
    if np.isfinite(components.seed.degrees):
        degrees = f"{components.seed.degrees:.0f} degree{'s' if components.seed.degrees > 1 else ''} of freedom"
        certain = f"{100 * CONFIDENCE:.0f} % interval {number(spread[1])} to {number(spread[2])}, {degrees}"
        if components.seeds == 2:
            certain += ": two seeds say little, so the ranges below are wide"
    else:
        certain = "stated, and taken as certain"
    lines += wrapped(f"between seeds: standard deviation {number(spread[0])} ({certain})", "  ")
    own = [
        f"{arm} {number(components.slope(arm) * np.sqrt(part.variance))}{' (†)' if arm in components.flagged else ''}"
        for arm, part in components.by_arm.items()
        if arm in arms
    ]
    if own:
        lines += wrapped(f"of each arm alone: {', '.join(own)}", "  ")
    if components.flagged:
        lines += wrapped("†: this arm's seeds differ more than those of other arms; its own variance is used", "  ")
    question = np.sqrt([*components.question.values()])
    answer = np.sqrt([components.interaction[arm] + components.sample[arm] for arm in arms])
    lines += wrapped(
        f"of a difference between questions: {span(question)}; of an answer to one question, over seeds"
        f"{' and samples' if any(components.sample.values()) else ''}: {span(answer)}",
        "  ",
    )
    return lines


def contrast_lines(plan: Plan, own: Design, pair: Pair, effects: Sequence[float], table: pd.DataFrame) -> list[str]:
    """Lines on a contrast: a row for each number of seeds, the fewest seeds for each effect, and `narrowing`."""
    of_pair = table[(table["arm"] == pair[0]) & (table["against"] == pair[1])]
    here = of_pair[(of_pair["questions"] == own.questions) & (of_pair["samples"] == own.samples)]
    head = f"{'seeds':>5}  {'length of the interval':<24}{'found':<8}"
    lines = [f"{pair[0]} against {pair[1]}", head + "".join(f"{f'power of +{x:g}':<24}" for x in effects)]
    for seeds, rows in here.groupby("seeds"):
        first = rows.iloc[0]
        length = f"{number(first['length'])} ({number(first['length_low'])} to {number(first['length_high'])})"
        powers = [f"{row.power:.2f} ({row.power_low:.2f} to {row.power_high:.2f})" for row in rows.itertuples()]
        mark = "*" if seeds == own.seeds else " "
        lines.append(
            f"{mark}{seeds:>4}  {length:<24}{detectable_text(first['detectable'], plan):<8}"
            + "".join(f"{p:<24}" for p in powers)
        )
    for effect in effects:
        few, low, high = (
            plan.fewest_seeds(own, pair, effect, of) for of in (Variance.ESTIMATED, Variance.LOW, Variance.HIGH)
        )
        certain = low == few == high
        between = "" if certain else f" ({count(low)} to {count(high)}, by the interval of the variance between seeds)"
        lines += wrapped(f"fewest seeds for +{effect:g} with a power of {TARGET:g}: {count(few)}{between}", "  ")
    return [line.rstrip() for line in [*lines, *wrapped(narrowing(of_pair, own), "  ")]]


def narrowing(of_pair: pd.DataFrame, own: Design) -> str:
    """How long a contrast's interval would be with one more seed, or with twice the questions or samples."""
    lengths = of_pair.groupby(["seeds", "questions", "samples"])["length"].first()
    options = {
        "one more seed": own._replace(seeds=own.seeds + 1),
        "twice the questions": own._replace(questions=2 * own.questions),
        "twice the samples": own._replace(samples=2 * own.samples),
    }
    shorter = [f"{number(lengths[size])} with {what}" for what, size in options.items() if size in lengths.index]
    return f"length with {own.seeds} seeds: {number(lengths[own])}; {', '.join(shorter)}"


def of_scale(components: Components, deviation: float) -> float:
    """A standard deviation on the comparable scale in units of the metric, at the mean arm."""
    return float(np.mean([components.slope(arm) for arm in components.means]) * deviation)


def detectable_text(effect: float, plan: Plan) -> str:
    """The smallest effect that the test finds; `none` where no effect in the metric's range is large enough."""
    limits = plan.components.limits
    return "none" if effect > limits.high - limits.low else number(effect)


def span(values: np.ndarray) -> str:
    """`0.02 to 0.05`, the lowest and the highest value; one value where both read the same."""
    low, high = (number(end) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def number(value: float) -> str:
    """Two significant digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}" if abs(value) < 1 else f"{value:.2g}"


def count(seeds: int | None) -> str:
    """A number of seeds; None means more than the largest number that is examined."""
    return f"more than {SEEDS[-1]}" if seeds is None else str(seeds)


def wrapped(text: str, indent: str = "") -> list[str]:
    """The lines of a wrapped text; later lines are indented further."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
