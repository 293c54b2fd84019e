"""Schedule: weights that change with the optimiser steps.

Arms with `combine: {method: schedule}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import AGGREGATIONS, SUM_THEN_NORMALIZE, shares
from reward_ablation.combination.parameters import choice, component, mapping, number
from reward_ablation.system.errors import StudyError

_EXAMPLE = "format: {0: 1.0, 100: 0.0}"


def schedule(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    step: int,
    epsilon: float = 1e-4,
    aggregation: str = SUM_THEN_NORMALIZE,
    **components: Any,
) -> Combined:
    """``w_k(t)`` piecewise linear in the optimiser steps done so far; then a weighted sum, normalised as in TRL.

    Before the first step of its schedule and after the last, a weight is constant. A component without a schedule keeps
    its weight. With GRPO's normalisation only the ratios of the weights count. Two consecutive steps make a jump, such
    as the switch of Kimi k1.5's length reward from 0 to a constant (arXiv 2501.12599). The linear form is this
    workflow's own.

    Parameters
    ----------
    aggregation : {"sum_then_normalize", "normalize_then_sum"}
        Whether the weighted sum or the z-scores come first.
    **components : mapping
        For each component: ``{step: weight}``. A weight may be negative.
    """
    choice("aggregation", aggregation, AGGREGATIONS)
    if not components:
        raise StudyError(f"schedule: no component has a schedule; write {_EXAMPLE}")
    scheduled = weights.copy()
    for name, points in components.items():
        column = component(name, name, names)
        steps, values = _points(name, points)
        scheduled[column] = np.interp(step, steps, values) * signs[column]
    return Combined(shares(scores, groups, scheduled, epsilon, aggregation), {}, scheduled)


def _points(name: str, points: Any) -> tuple[list[float], list[float]]:
    """Steps in order, and the weights at these steps. Steps may be texts, because JSON turns keys into texts."""
    at: dict[float, float] = {}
    for key, value in mapping(name, points, _EXAMPLE).items():
        try:
            step = number(name, float(key) if isinstance(key, str) else key, 0.0)
        except ValueError:
            raise StudyError(f"{name}: {key!r} is not a step; write steps of at least 0, as in {_EXAMPLE}") from None
        if step in at:
            raise StudyError(f"{name}: step {key} is written twice; write each step once")
        at[step] = number(f"{name}.{key}", value)
    steps = sorted(at)
    return steps, [at[step] for step in steps]
