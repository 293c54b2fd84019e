"""Effects of reward components as linear contrasts of arms.

Each effect is a sum of arms' results times coefficients, so that seeds and questions, which all arms share, are
paired in it, and one bootstrap serves every effect. The study's design defines what an effect is (`METHODS`). The base
model stands for no arm: it was not trained, and what training does to any arm would be taken for the component's.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

#: Name of the base model among arms.
BASE = "base"

#: Prefix of the names of contrasts that are 0 where a regression's model holds; no component's name has a blank.
LACK_OF_FIT = "lack of fit "

#: Most contrasts of lack of fit of a model.
MOST_CONTRASTS = 100

#: The definition of an effect by design, with the method's name in the table. A list has the first of these that its
#: arms allow.
METHODS = {
    "leave_one_out": "leave_one_out",
    "one_at_a_time": "over_control",
    "factorial": "main_effect",
    "simplex": "regression",
}

Weights = dict[str, dict[str, float]]


class Effect(NamedTuple):
    """An effect of a component: coefficients by arm."""

    method: str
    component: str
    coefficients: dict[str, float]


def effects(arms: Weights, components: list[str], design: str, control: str | None = None) -> list[Effect]:
    """The effects of the components by the design's definition; empty where the arms do not allow any.

    `arms` has the weights by component of each arm; the arms differ in nothing else. `components` are in the study's
    order. `control` is the arm that was trained without information, and is not among `arms`.
    """
    used = [name for name in components if any(weights.get(name, 0.0) for weights in arms.values())]
    of_methods = {
        "leave_one_out": lambda: leave_one_out(arms, used),
        "over_control": lambda: over_control(arms, used, control),
        "main_effect": lambda: main_effects(arms, used, control),
        "regression": lambda: regression(arms, used),
    }
    methods = [METHODS[design]] if design in METHODS else ["leave_one_out", "over_control", "regression"]
    return next((found for method in methods if (found := of_methods[method]())), [])


def main_effects(arms: Weights, used: list[str], control: str | None) -> list[Effect]:
    """Mean difference that a component makes beside each set of other components, in a two-level full factorial design.

    The empty set is the control arm; without a control arm it does not count. Empty where a set is missing, or where a
    component has two weights other than 0.
    """
    if any(len({weights[name] for weights in arms.values() if weights[name]}) > 1 for name in used):
        return []
    subsets = {frozenset(name for name in used if weights[name]): arm for arm, weights in arms.items()}
    if len(used) < 2 or len(subsets) < 2 ** len(used) - 1:
        return []
    subsets |= {frozenset(): control} if control is not None else {}
    found = []
    for name in used:
        beside = [subset for subset in subsets if name not in subset]
        coefficients = {subsets[subset | {name}]: 1 / len(beside) for subset in beside}
        found.append(
            Effect("main_effect", name, coefficients | {subsets[subset]: -1 / len(beside) for subset in beside})
        )
    return found


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


def over_control(arms: Weights, used: list[str], control: str | None) -> list[Effect]:
    """The arm with this component alone minus the control arm; none without a control arm."""
    if control is None:
        return []
    found = []
    for name in used:
        alone = [
            arm for arm, weights in arms.items() if weights[name] and not any(weights[o] for o in used if o != name)
        ]
        found += [Effect("over_control", name, {arm: 1.0, control: -1.0}) for arm in alone]
    return _unambiguous(found)


def _unambiguous(found: list[Effect]) -> list[Effect]:
    """Drop components with several effects, of several weights: it is unclear which effect is meant."""
    names = [effect.component for effect in found]
    return [effect for effect in found if names.count(effect.component) == 1]


def regression(arms: Weights, used: list[str]) -> list[Effect]:
    """Effects from least squares on the shares of the weights; none where arms are too few, or a weight is negative.

    A weight counts by its share of the arm's weights: a common factor drops out of scaled advantages, and nearly out of
    Adam's steps. Shares are a mixture, and the models are Scheffé's: quadratic where there are arms enough, else linear
    (Scheffé, "Experiments with mixtures", JRSS B 1958). A component can then rise only as others fall. Its effect is
    the model's result of this component alone minus that of the others in equal parts, along Cox's direction through
    the centre (Cornell, "Experiments with Mixtures", 2002, chapter 5). There must be more arms than coefficients, or
    the model fits any results.

    The model also has contrasts of lack of fit, named by `LACK_OF_FIT`, which are 0 where it holds. They are
    orthogonal and chosen without a look at the results, so with many arms a part of them serves as well as all.
    """
    matrix = np.array([[weights[name] for name in used] for weights in arms.values()])
    if len(used) < 2 or (matrix < 0).any():
        return []
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    alone = np.eye(len(used))
    others = (1 - alone) / (len(used) - 1)
    for method, terms in (("quadratic_regression", with_products), ("regression", np.asarray)):
        design = terms(shares)
        if len(design) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        slopes = (terms(alone) - terms(others)) @ np.linalg.pinv(design)
        lack_of_fit = null_space(design.T).T[:MOST_CONTRASTS]
        rows = [*((method, name, row) for name, row in zip(used, slopes, strict=True))]
        rows += [(method, f"{LACK_OF_FIT}{number}", row) for number, row in enumerate(lack_of_fit)]
        return [Effect(kind, name, dict(zip(arms, map(float, row), strict=True))) for kind, name, row in rows]
    return []


def with_products(shares: np.ndarray) -> np.ndarray:
    """Terms of Scheffé's quadratic model: the shares, and the products of two of them."""
    pairs = [shares[:, first] * shares[:, second] for first, second in combinations(range(shares.shape[1]), 2)]
    return np.column_stack([shares, *pairs])


def reach(effect: Effect) -> tuple[float, float]:
    """Lowest and highest value of the effect on a metric that is a share."""
    coefficients = effect.coefficients.values()
    return sum((c for c in coefficients if c < 0), 0.0), sum((c for c in coefficients if c > 0), 0.0)
