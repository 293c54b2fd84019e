"""Gate: a component counts only where another component reaches a score.

Arms with `combine: {method: gate}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import AGGREGATIONS, SUM_THEN_NORMALIZE, shares
from reward_ablation.combination.parameters import choice, component, mapping, number, only_keys
from reward_ablation.system.errors import StudyError

_EXAMPLE = "length: {needs: correctness, at_least: 1}"


def gate(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    epsilon: float = 1e-4,
    aggregation: str = SUM_THEN_NORMALIZE,
    **components: Any,
) -> Combined:
    """``r_ik <- r_ik`` where ``r_il >= at_least``, else `otherwise`; then a weighted sum, normalised as in TRL.

    ``r_ik`` is the score of the gated component k for completion i, and l the component that it needs.

    Source: conditioned rewards of GDPO, Liu et al. 2026, arXiv 2601.05242, equation 8, where `otherwise` is 0. All
    conditions use raw scores, even if the needed component is itself gated. If the needed component gave no score, the
    condition is not met.

    For a component whose scores are never above 0, such as a penalty, 0 is the best score: give it its lowest score as
    `otherwise`. Completions that do not meet the condition stay in the group's mean and deviation.

    Parameters
    ----------
    aggregation : {"sum_then_normalize", "normalize_then_sum"}
        Whether the weighted sum or the z-scores come first. The paper takes the second; the default is GRPO's.
    **components : mapping
        For each gated component: `needs`, another component; `at_least`, a raw score of that component; `otherwise`,
        the raw score of the gated component where the condition is not met, default 0.
    """
    choice("aggregation", aggregation, AGGREGATIONS)
    if not components:
        raise StudyError(f"gate: no component is gated; write {_EXAMPLE}")
    gated = scores.copy()
    for name, condition in components.items():
        column = component(name, name, names)
        if weights[column] == 0:
            raise StudyError(f"{name}: the gated component has no weight; give it a weight or remove the gate")
        only_keys(name, mapping(name, condition, _EXAMPLE), ("needs", "at_least", "otherwise"))
        for key in ("needs", "at_least"):
            if key not in condition:
                raise StudyError(f"{name}.{key}: missing; write {_EXAMPLE}")
        needed = component(f"{name}.needs", condition["needs"], names)
        threshold = number(f"{name}.at_least", condition["at_least"])
        otherwise = number(f"{name}.otherwise", condition.get("otherwise", 0.0)) * signs[column]
        met = scores[:, needed] * signs[needed] >= threshold
        gated[:, column] = np.where(met | np.isnan(scores[:, column]), scores[:, column], otherwise)
    return Combined(shares(gated, groups, weights, epsilon, aggregation), {}, weights)
