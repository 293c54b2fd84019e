"""Lagrangian: constraints on mean scores, with multipliers in place of weights.

Arms with `combine: {method: lagrangian}` use it: `call_method` calls it for each generation of completions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined
from reward_ablation.combination.normalisation import nan_mean, shares
from reward_ablation.combination.parameters import component, mapping, number
from reward_ablation.system.errors import StudyError

_EXAMPLE = "at_least: {length: 0.6}"


def lagrangian(
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: dict[str, Any],
    *,
    names: tuple[str, ...],
    signs: np.ndarray,
    bounds: np.ndarray,
    epsilon: float = 1e-4,
    at_least: Any = None,
    step_size: float = 0.01,
    most: float = 10.0,
) -> Combined:
    """``l_k <- clip(l_k + step_size (at_least_k - mean_batch r_k), 0, most)``; GRPO with ``l_k`` as weights.

    ``r_k`` are the scores of component k. Components that `at_least` does not name keep their weights. A multiplier
    starts from the weight of its component; in the source it starts from 0. The advantages use the new multipliers. A
    constraint that cannot be met drives its multiplier to `most`.

    Source: dual ascent, as in the code of CTWA (arXiv 2602.06869: step size 0.01, bounds of 0.9, no upper limit) and in
    Safe RLHF (Dai et al. 2024, arXiv 2310.12773). CTWA's code adds up advantages that are normalised per component.
    Here the scores are added up and normalised once, so that a multiplier is in units of the scores, and the ratio of
    the multipliers means what it means in the Lagrangian. An advantage has the sign of the sum less its mean in
    the group.

    Parameters
    ----------
    at_least : mapping
        Lowest mean raw score, ``{component: mean raw score}``.
    step_size : float
        Change of a multiplier per unit of missing mean score; at least 0. 0 leaves the weights unchanged,
        except a constrained one above `most`.
    most : float
        Largest multiplier, at least 0.
    """
    number("step_size", step_size, 0.0)
    number("most", most, 0.0)
    multipliers = weights.copy()
    means = nan_mean(scores, 0)[0]
    constrained = {}
    for name, least in mapping("at_least", at_least, _EXAMPLE).items():
        column = component("at_least", name, names)
        _check(name, number(f"at_least.{name}", least), signs[column], bounds[column])
        old = state.get("multipliers", {}).get(name, weights[column])
        new = old if np.isnan(means[column]) else old + step_size * (least - means[column])
        multipliers[column] = constrained[name] = float(np.clip(new, 0.0, most))
    if not any(weight for name, weight in zip(names, weights, strict=True) if name not in constrained):
        raise StudyError(
            "at_least: no component with a weight is left to be maximised; give a weight to a component not named here"
        )
    return Combined(shares(scores, groups, multipliers, epsilon), {"multipliers": constrained}, multipliers)


def _check(name: str, least: float, sign: float, bounds: np.ndarray) -> None:
    if sign < 0:
        raise StudyError(
            f"at_least.{name}: the component has a negative weight, and its multiplier is at least 0; "
            "give it a weight of at least 0"
        )
    if least > bounds[1]:
        raise StudyError(f"at_least.{name}: {least:g} is above the highest score, {bounds[1]:g}; write less")
