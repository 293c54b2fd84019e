"""Checks that methods of combination make of their parameters. A StudyError starts with the parameter's name.

They run at each call. So a plan, which calls the workflow's methods with made-up scores, refuses what a training would
refuse. Callers add the arm to the error.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from reward_ablation.system.errors import StudyError

#: Larger numbers, NaN and infinity are refused, so that no product of a few numbers overflows.
_LARGEST = 1e50


def number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number from low to high; StudyError for anything else."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
    if not (fits and low <= value <= high):
        if math.isinf(low) and math.isinf(high):
            span = "a finite number"
        elif math.isinf(high):
            span = f"a number of at least {low:g}"
        elif math.isinf(low):
            span = f"a number of at most {high:g}"
        else:
            span = f"a number from {low:g} to {high:g}"
        raise StudyError(f"{name}: {value!r} is not {span}; write {span}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A finite number above 0; StudyError for anything else."""
    if number(name, value, 0.0) == 0:
        raise StudyError(f"{name}: 0 is not above 0; write a number above 0")
    return float(value)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of the options; StudyError for anything else."""
    if not isinstance(value, str) or value not in options:
        raise StudyError(f"{name}: {value!r} is unknown; write one of {', '.join(options)}")
    return value


def component(name: str, value: Any, names: Sequence[str]) -> int:
    """Column of a component, by its name; StudyError if there is no such component."""
    if not isinstance(value, str) or value not in names:
        raise StudyError(f"{name}: unknown component {value!r}; components here: {', '.join(names)}")
    return list(names).index(value)


def mapping(name: str, value: Any, example: str) -> Mapping[Any, Any]:
    """A mapping with entries. For anything else the StudyError shows the example."""
    if not isinstance(value, Mapping) or not value:
        raise StudyError(f"{name}: {value!r} is not a mapping with entries; write it as in {example}")
    return value


def only_keys(name: str, value: Mapping[Any, Any], allowed: Collection[str]) -> None:
    """Refuse a key of a parameter that is not allowed."""
    for key in value:
        if key not in allowed:
            raise StudyError(f"{name}.{key}: unknown key; keys here: {', '.join(allowed)}")


def by_component(
    name: str, value: Any, names: Sequence[str], default: float, low: float = -math.inf, high: float = math.inf
) -> np.ndarray:
    """(K,) numbers from low to high, from one for all components, or from ``{component: number}``, others `default`."""
    if not isinstance(value, Mapping):
        return np.full(len(names), number(name, value, low, high))
    numbers = np.full(len(names), default)
    for key, each in value.items():
        numbers[component(name, key, names)] = number(f"{name}.{key}", each, low, high)
    return numbers


def ranges_of(
    ranges: Any, bounds: np.ndarray, names: Sequence[str], signs: np.ndarray, needed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest score of each component, each (K,), with the sign that the method's scores have.

    `ranges`, ``{component: [lowest, highest]}`` or None, takes precedence over `bounds`, (K, 2), NaN where not
    documented, in order and negated where `signs`, (K,), is -1. StudyError if the range of a `needed` one is not known.
    """
    low, high = bounds.astype(float).T
    for key, pair in mapping("ranges", ranges, "ranges: {length: [0, 1]}").items() if ranges else ():
        column = component("ranges", key, names)
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise StudyError(f"ranges.{key}: {pair!r} is not a pair; write [lowest, highest]")
        ends = [number(f"ranges.{key}", end) * signs[column] for end in pair]
        low[column], high[column] = ends[:: int(signs[column])]  # a sign of -1 turns the ends round
    for column in np.flatnonzero(~(low < high)):  # also where an end is NaN
        key = names[column]
        if np.isfinite([low[column], high[column]]).all():
            raise StudyError(f"ranges.{key}: the lowest score is not below the highest; write [lowest, highest]")
        if needed[column]:
            raise unknown_range(key)
    return low, high


def unknown_range(name: str) -> StudyError:
    """The error for a component whose range must be known and is not."""
    return StudyError(
        f"ranges: the range of {name!r} is not known, and this method needs it; "
        f"write ranges: {{{name}: [lowest, highest]}}"
    )


def unit_scores(scores: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Scores mapped from their ranges to [0, 1]; a score outside its range is moved to the end of the range."""
    return np.clip((scores - low) / (high - low), 0.0, 1.0)
