"""Signs of reward hacking in words."""

from __future__ import annotations

import math

from reward_ablation.analysis.reward_hacking.changes import Change

#: Names of measures.
NAMES = {
    "training": "accuracy on the training problems of each step",
    "lenient": "lenient accuracy",
    "one_grader": "answers right by the strict grader alone",
    "gap": "training accuracy beyond lenient accuracy on",
    "length": "length of wrong over right completions",
}


def number(value: float) -> str:
    """A value with two digits after the point, and no zero before it."""
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def course(before: float, after: float) -> str:
    """Such as `.30 -> .90`."""
    return f"{number(before)} -> {number(after)}"


def sentence(
    arm: str,
    kind: str,
    measure: str,
    component: str | None,
    change: Change,
    rise: Change | None,
    down: bool,
    sign: bool,
) -> str:
    """A sign of reward hacking in words, or the statement that there is none.

    `down` says that the component's weight is negative, so that its curve is turned over.
    """
    if not sign:
        return f"{arm}: no sign ({kind}) of {f'{component} against ' if component else ''}{measure}"
    if rise is None or component is None:
        before, after = (math.exp(value) if kind == "length" else value for value in (change.before, change.after))
        return f"{arm}: {measure} rose {course(before, after)}, from step {change.onset} on"
    ends = (-rise.before, -rise.after) if down else (rise.before, rise.after)
    moved = f"the reward {component} {'fell, as its weight asks,' if down else 'rose'} {course(*ends)}"
    if kind == "plateau":
        accuracy = course(change.before, change.after)
        return f"{arm}: {moved} after {measure} had stopped rising at step {change.onset} ({accuracy})"
    return f"{arm}: {moved} while {measure} fell {course(-change.before, -change.after)}, from step {change.onset} on"
