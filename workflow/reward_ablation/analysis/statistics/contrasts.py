"""Effects of reward components as linear contrasts of arms.

Each effect is a sum of arms' results times coefficients, so that seeds and questions, which all arms share, are
paired in it, and one bootstrap serves every effect. Which effects there are follows from the arms' weights. The base
model stands for the arm with no reward at all: nothing would be trained.
"""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

#: Name of the base model among arms.
BASE = "base"

#: Prefix of the names of contrasts that are 0 where a regression's model holds; no component's name has a blank.
LACK_OF_FIT = "lack of fit "

#: Most contrasts of lack of fit of a model.
MOST_CONTRASTS = 100

Weights = dict[str, dict[str, float]]
Subsets = dict[frozenset[str], str]


class Effect(NamedTuple):
    """An effect of a component, or of two ("a:b"): coefficients by arm."""

    method: str
    component: str
    coefficients: dict[str, float]


def effects(arms: Weights, components: list[str], regress: bool, control: str | None = None) -> list[Effect]:
    """All effects that these arms allow.

    Parameters
    ----------
    arms : dict
        Weights by component, by arm; the arms differ in nothing else.
    components : list of str
        In the study's order.
    regress : bool
        Whether to regress on weights; false where weights are only on or off.
    control : str, optional
        Arm that was trained without information; it is not among `arms`.
    """
    used = [name for name in components if any(weights.get(name, 0.0) for weights in arms.values())]
    subsets = subsets_of(arms, used)
    found: list[Effect] = []
    if len(subsets) == 2 ** len(used):
        found += [main_effect(subsets, name) for name in used]
        found += [interaction(subsets, first, second) for first, second in combinations(used, 2)]
        found += [shapley(subsets, name, used) for name in used]
    found += leave_one_out(arms, used)
    found += one_at_a_time(arms, used, BASE)
    if control is not None:
        found += one_at_a_time(arms, used, control)
    return found + (regression(arms, used) if regress else [])


def subsets_of(arms: Weights, used: list[str]) -> Subsets:
    """Arm of each set of components; the base model has none. Empty if a weight has two values other than 0."""
    if any(len({weights[name] for weights in arms.values() if weights[name]}) > 1 for name in used):
        return {}
    return {frozenset(): BASE} | {
        frozenset(name for name in used if weights[name]): arm for arm, weights in arms.items()
    }


def main_effect(subsets: Subsets, name: str) -> Effect:
    """Mean of the arms with a component minus mean of those without, in a two-level full factorial design."""
    half = len(subsets) / 2
    return Effect("main_effect", name, {arm: (1 if name in subset else -1) / half for subset, arm in subsets.items()})


def interaction(subsets: Subsets, first: str, second: str) -> Effect:
    """Half the difference between a component's effects with the other on and off (Box, Hunter, Hunter 2005, ch. 5)."""
    half = len(subsets) / 2
    return Effect(
        "interaction",
        f"{first}:{second}",
        {arm: (1 if (first in subset) == (second in subset) else -1) / half for subset, arm in subsets.items()},
    )


def shapley(subsets: Subsets, name: str, used: list[str]) -> Effect:
    """Exact Shapley value (Shapley 1953): what a component adds, averaged over all orders of adding the components.

    The values of all components add up to the arm with all of them minus the base model.
    """
    count = len(used)
    coefficients: dict[str, float] = {}
    for subset, arm in subsets.items():
        size = len(subset - {name})
        weight = factorial(size) * factorial(count - size - 1) / factorial(count)
        coefficients[arm] = weight if name in subset else -weight
    return Effect("shapley", name, coefficients)


def leave_one_out(arms: Weights, used: list[str]) -> list[Effect]:
    """The arm with all components minus the arm without this component, whose other weights are the same."""
    found = []
    for full, weights in arms.items():
        if len(used) < 2 or not all(weights[name] for name in used):
            continue
        for name in used:
            without = [arm for arm, others in arms.items() if others == weights | {name: 0.0}]
            found += [Effect("leave_one_out", name, {full: 1.0, arm: -1.0}) for arm in without[:1]]
    return _unambiguous(found)


def one_at_a_time(arms: Weights, used: list[str], against: str) -> list[Effect]:
    """The arm with this component alone minus the base model, or minus the control arm."""
    method = "one_at_a_time" if against == BASE else "over_control"
    found = []
    for name in used:
        alone = [
            arm for arm, weights in arms.items() if weights[name] and not any(weights[o] for o in used if o != name)
        ]
        found += [Effect(method, name, {arm: 1.0, against: -1.0}) for arm in alone]
    return _unambiguous(found)


def _unambiguous(found: list[Effect]) -> list[Effect]:
    """Drop components with several effects, of several weights: it is unclear which effect is meant."""
    names = [effect.component for effect in found]
    return [effect for effect in found if names.count(effect.component) == 1]


def regression(arms: Weights, used: list[str]) -> list[Effect]:
    """Effects from least squares on the shares of the weights; none where arms are too few, or a weight is negative.

    A weight counts by its share of the arm's weights: a common factor drops out of scaled advantages, and nearly out of
    Adam's steps. Shares are a mixture, and the models are Scheffé's: linear, and quadratic where there are arms enough
    (Scheffé, "Experiments with mixtures", JRSS B 1958). A component can then rise only as others fall. Its effect is
    the model's result of this component alone minus that of the others in equal parts, along Cox's direction through
    the centre (Cornell, "Experiments with Mixtures", 2002, chapter 5). There must be more arms than coefficients, or
    the model fits any results. The base model is no point of the regression: as weights go to 0, GRPO's advantages do
    not.

    Each model also has contrasts of lack of fit, named by `LACK_OF_FIT`, which are 0 where the model holds. They are
    orthogonal and chosen without a look at the results, so with many arms a part of them serves as well as all.
    """
    matrix = np.array([[weights[name] for name in used] for weights in arms.values()])
    if len(used) < 2 or (matrix < 0).any():
        return []
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    alone = np.eye(len(used))
    others = (1 - alone) / (len(used) - 1)
    found: list[Effect] = []
    for method, terms in (("regression", np.asarray), ("quadratic_regression", with_products)):
        design = terms(shares)
        if len(design) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        slopes = (terms(alone) - terms(others)) @ np.linalg.pinv(design)
        lack_of_fit = null_space(design.T).T[:MOST_CONTRASTS]
        rows = [*((method, name, row) for name, row in zip(used, slopes, strict=True))]
        rows += [(method, f"{LACK_OF_FIT}{number}", row) for number, row in enumerate(lack_of_fit)]
        found += [Effect(kind, name, dict(zip(arms, map(float, row), strict=True))) for kind, name, row in rows]
    return found


def with_products(shares: np.ndarray) -> np.ndarray:
    """Terms of Scheffé's quadratic model: the shares, and the products of two of them."""
    pairs = [shares[:, first] * shares[:, second] for first, second in combinations(range(shares.shape[1]), 2)]
    return np.column_stack([shares, *pairs])


def reach(effect: Effect) -> tuple[float, float]:
    """Lowest and highest value of the effect on a metric that is a share."""
    coefficients = effect.coefficients.values()
    return sum((c for c in coefficients if c < 0), 0.0), sum((c for c in coefficients if c > 0), 0.0)
