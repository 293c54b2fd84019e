"""One call of a method of combination: the input of the method, and the check of its result.

`CombinationOfRun` makes the call at each generation of a training, and when tables replay a finished run. `load.check`
makes it with made-up scores when a config is read, for the workflow's own methods. A user's method is checked alike.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from reward_ablation.combination.interface import Combined, Method
from reward_ablation.combination.normalisation import group_size
from reward_ablation.system.errors import StudyError

#: The parameter that every method has: whether to scale the weights so that their sizes sum to the same as the arm's.
RESCALE = "rescale"

#: Largest size of a score or a weight. Squares of products of two such numbers are finite; scores of training are
#: single precision numbers, which are smaller.
LARGEST = 1e50

#: Largest size of a number that a method returns: beyond products of scores and weights; squares and sums are finite.
LARGEST_RESULT = 1e150


def call_method(
    method: Method,
    label: str,
    parameters: Mapping[str, Any],
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: Mapping[str, Any],
    *,
    names: Sequence[str],
    gram: np.ndarray | None = None,
    step: int = 0,
    bounds: np.ndarray | None = None,
    tokens: np.ndarray | None = None,
    learning_rate: float = 0.0,
    epsilon: float = 1e-4,
) -> Combined:
    """Call a method with the arguments that it asks for, and check its result.

    The method sees a component without a weight only if a parameter names this component. The method gets the size of a
    negative weight, and the scores, the bounds and the Gram matrix with the opposite sign. The weights of the result
    get the signs of the arm's weights again; the advantages need no change, because the scores had the signs.

    The method returns a Combined, or (N, K) or (N,) advantages, alone or followed by the state, the weights and the
    conflicts. (N,) advantages are divided equally among the weighted components. The parameter `rescale` says whether
    advantages and weights are multiplied so that the sizes of the weights sum to the same as the arm's. The default is
    yes for methods that take `gram` and report weights.

    `scores`, (N, K), of N completions by K components, are NaN where a component gave no score. `groups`, (N,), has the
    number of each completion's group: rows of a group are adjacent, all groups have the same size, and no two have the
    same number. `weights`, (K,), are the arm's and may be negative. `state` is what the method returned at the last
    generation, empty at first.
    For the keywords see `interface.CONTEXT`. `label` names the method in messages.

    StudyError if a score or a weight is beyond `LARGEST`, if a weight is NaN, if the Gram matrix or a number of the
    result is not finite, if the result has a wrong shape or a state that is not JSON, if the method asks for `tokens`
    that are not known, or if a parameter is wrong. ValueError if the input's shapes do not fit, or the groups are not
    as described.
    """
    scores, groups, weights, names = _checked_input(label, scores, groups, weights, names, gram)
    own = {key: value for key, value in parameters.items() if key != RESCALE}
    involved = (weights != 0) | np.isin(names, named_components(own, names))
    if not involved.any():
        return Combined(np.zeros(scores.shape), dict(state), None)
    signs = np.where(weights < 0, -1.0, 1.0)
    inside = np.abs(weights[involved])
    context = _of_components(names, gram, bounds, signs, involved)
    context |= {"step": int(step), "tokens": tokens, "epsilon": epsilon, "learning_rate": learning_rate}
    given = _asked(label, method, context)
    result = method(
        np.ascontiguousarray(scores[:, involved] * signs[involved]),
        groups.copy(),
        inside.copy(),
        copy.deepcopy(dict(state)),
        **given,
        **copy.deepcopy(own),
    )
    found = _checked(label, result, len(scores), inside)
    return _unfolded(_rescaled(label, found, inside, parameters.get(RESCALE), "gram" in given), involved, signs)


def _asked(label: str, method: Method, context: dict[str, Any]) -> dict[str, Any]:
    """The part of the context that a method asks for by its keyword-only arguments."""
    arguments = inspect.signature(method).parameters.values()
    asked = {argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
    given = {name: value for name, value in context.items() if name in asked}
    if "tokens" in given:
        if given["tokens"] is None:
            raise StudyError(f"{label}: the method needs the lengths of the completions, which are not known here")
        given["tokens"] = np.asarray(given["tokens"])
    return given


def _of_components(
    names: tuple[str, ...], gram: np.ndarray | None, bounds: np.ndarray | None, signs: np.ndarray, involved: np.ndarray
) -> dict[str, Any]:
    """The parts of the context that have a value per component: for the components that the method sees, with signs."""
    folded = np.asarray(0.0 if gram is None else gram, float) * np.outer(signs, signs)
    low, high = np.full((2, len(signs)), np.nan) if bounds is None else np.asarray(bounds, float).T * signs
    return {
        "names": tuple(name for name, known in zip(names, involved, strict=True) if known),
        "signs": signs[involved],
        "gram": None if gram is None else folded[np.ix_(involved, involved)],
        "bounds": np.where(signs < 0, (high, low), (low, high)).T[involved],
    }


def _checked_input(
    label: str, scores: np.ndarray, groups: np.ndarray, weights: np.ndarray, of: Sequence[str], gram: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Scores, groups, weights and names as arrays and a tuple."""
    scores, groups, weights, names = np.asarray(scores, float), np.asarray(groups), np.asarray(weights, float), (*of,)
    count = len(names)
    if scores.ndim != 2 or scores.shape[1] != count or weights.shape != (count,) or groups.shape != scores.shape[:1]:
        raise ValueError(f"{scores.shape} scores, {groups.shape} groups, {weights.shape} weights, {count} components")
    size = group_size(groups)
    alike = size and len(groups) % size == 0 and (groups.reshape(-1, size) == groups[::size, None]).all()
    if not alike or len(np.unique(groups)) * size != len(groups):
        raise ValueError("the rows of a group must be adjacent; groups must have equal sizes and different numbers")
    large = ~(np.isnan(scores) | (np.abs(scores) <= LARGEST)).all(axis=0)
    for name, beyond in zip(names, large, strict=True):
        if beyond:
            raise StudyError(f"{label}: a score of {name} is infinite or beyond {LARGEST:g}; return smaller scores")
    if not (np.abs(weights) <= LARGEST).all():
        raise StudyError(f"{label}: a weight is not a number or beyond {LARGEST:g}; write smaller weights")
    if gram is not None and (np.shape(gram) != (count, count) or not np.isfinite(gram).all()):
        raise StudyError(f"{label}: the Gram matrix of the components' gradients is not finite: the training diverged")
    return scores, groups, weights, names


def _checked(label: str, result: Any, completions: int, weights: np.ndarray) -> Combined:
    """The result of a method as a Combined; StudyError if the result does not fit."""
    parts = result if isinstance(result, tuple) else (result, {})
    if not 2 <= len(parts) <= 4:
        raise StudyError(f"{label}: the method returned {len(parts)} values; return (advantages, state)")
    advantages, state, found, conflicts = (*parts, None, None)[:4]
    advantages = _numbers(label, "advantages", advantages)
    if advantages.shape == (completions,):
        weighted = weights != 0 if weights.any() else np.ones(len(weights), bool)
        advantages = advantages[:, None] * weighted / weighted.sum()
    _check_shape(label, "advantages", advantages, (completions, len(weights)))
    if found is not None:
        found = _numbers(label, "weights", found)
        _check_shape(label, "weights", found, weights.shape)
    if conflicts is not None:
        conflicts = float(_numbers(label, "conflicts", conflicts))
    return Combined(advantages, _json(label, state), found, conflicts)


def _numbers(label: str, what: str, value: Any) -> np.ndarray:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise StudyError(f"{label}: the method returned {what} that are not numbers; return an array") from None
    if not (np.abs(numbers) <= LARGEST_RESULT).all():  # also NaN
        raise StudyError(
            f"{label}: the method returned {what} that are not finite or beyond {LARGEST_RESULT:g}; return 0 where "
            "there is no advantage"
        )
    return numbers


def _check_shape(label: str, what: str, value: np.ndarray, expected: tuple[int, ...]) -> None:
    if value.shape != expected:
        raise StudyError(f"{label}: the method returned {what} of shape {value.shape}; return shape {expected}")


def _json(label: str, state: Any) -> dict[str, Any]:
    try:
        read = json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise StudyError(
            f"{label}: the method's state is not JSON ({error}); return a dict with texts and finite numbers"
        ) from None
    if not isinstance(read, dict):
        raise StudyError(f"{label}: the method's state is not a dict; return {{}} for a method without state")
    return read


def _rescaled(label: str, found: Combined, weights: np.ndarray, wanted: Any, by_gram: bool) -> Combined:
    """The result, multiplied if `rescale` asks for it or, by default, if the method takes `gram`: see `call_method`."""
    if wanted not in (None, True, False):
        raise StudyError(f"{RESCALE}: {wanted!r} is neither true nor false; write one of them")
    if wanted and found.weights is None:
        raise StudyError(f"{RESCALE}: {label} reports no weights to rescale by; remove {RESCALE}")
    if found.weights is None or not (by_gram if wanted is None else wanted):
        return found
    size = np.abs(found.weights).sum()
    with np.errstate(over="ignore", invalid="ignore"):  # weights near 0 are refused below
        factor = np.abs(weights).sum() / size if size > 0 else 1.0
        advantages, rescaled = found.advantages * factor, found.weights * factor
    advantages, rescaled = _numbers(label, "advantages", advantages), _numbers(label, "weights", rescaled)
    return found._replace(advantages=advantages, weights=rescaled)


def _unfolded(found: Combined, involved: np.ndarray, signs: np.ndarray) -> Combined:
    """The result for all components: 0 for components that the method did not see, and weights with their signs."""
    advantages = np.zeros((len(found.advantages), len(involved)))
    advantages[:, involved] = found.advantages
    if found.weights is None:
        return found._replace(advantages=advantages)
    weights = np.zeros(len(involved))
    weights[involved] = found.weights
    return found._replace(advantages=advantages, weights=weights * signs)


def named_components(parameters: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Components whose names are a key or a value of the parameters at any depth, in the order of `names`."""
    texts = set(_texts(parameters))
    return tuple(name for name in names if name in texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
