"""Lowest and highest score of the components that come with the workflow, as their docstrings state them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reward_ablation.rewards.load import check_component
from reward_ablation.system.user_functions import in_a_file

#: Ends of the range by function: numbers, or names of parameters. The lowest and the highest of the values count.
RANGES: dict[str, tuple[float | str, ...]] = {
    **dict.fromkeys(("answer_format", "boxed_answer", "character_length", "correctness", "instructions"), (0.0, 1.0)),
    **dict.fromkeys(("keyword_steps", "random", "step_format", "tag_count", "token_length", "unit_tests"), (0.0, 1.0)),
    "cosine_length": ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct"),
    **dict.fromkeys(("diversity", "majority"), (0.0, 1.0)),
    "final_line": ("correct", "well_formed", "malformed"),
    "judge": ("low", "high"),
    "relative_length": (-0.5, 0.5),
    "repetition_penalty": ("max_penalty", 0.0),
    "signed_answer": (-1.0, 1.0),
    "soft_overlong": (-1.0, 0.0),
    "think_answer_tags": ("well_formed", "malformed"),
    "three_way_verifier": ("correct", "wrong", "missing"),
}


def range_of(function: str, parameters: dict[str, Any], root: Path) -> tuple[float, float] | None:
    """Lowest and highest score of a component; None where they are not known, or are equal.

    They are not known for a user's function and for a reward model. `constant` has only one score.
    """
    if in_a_file(function) or function not in RANGES:
        return None
    reward: Callable = check_component(function, parameters, root)[0]
    defaults = {name: parameter.default for name, parameter in inspect.signature(reward).parameters.items()}
    ends = [float({**defaults, **parameters}[end] if isinstance(end, str) else end) for end in RANGES[function]]
    return (min(ends), max(ends)) if min(ends) < max(ends) else None
