"""Combine the components of an arm by the method that the config names, and check the method while planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reward_ablation.combination.call import RESCALE, call_method
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.load import arguments_of_method, check_names, load_method, method_names
from reward_ablation.combination.named import named_components
from reward_ablation.system.errors import StudyError
from reward_ablation.system.user_functions import in_a_file

__all__ = ["check", "combine", "load_method", "method_names", "named_components", "uses_gram"]


def combine(
    method: str,
    parameters: Mapping[str, Any],
    scores: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray,
    state: Mapping[str, Any],
    *,
    root: Path = Path(),
    **context: Any,
) -> Combined:
    """Combine scores by a method; for the arguments and errors see `call.call_method`.

    `method` is a name from `method_names`, or ``path/to/file.py:function`` relative to `root`, the study's folder, or
    ``package.module:function``. `context` has `names`, and those of the other values of `interface.CONTEXT` that are
    known.
    """
    return call_method(load_method(method, Path(root)), method, parameters, scores, groups, weights, state, **context)


def uses_gram(method: str, root: Path = Path()) -> bool:
    """Whether a method asks for the Gram matrix of the components' gradients."""
    return "gram" in arguments_of_method(method, root).context


def check(
    method: str,
    parameters: Mapping[str, Any],
    names: Sequence[str],
    weights: Sequence[float],
    bounds: np.ndarray | None = None,
    root: Path = Path(),
) -> None:
    """Refuse a method or parameters that training would refuse.

    A method of the workflow is called twice with a few made-up completions, the second time with its own state. A
    user's file is read but not run.

    `method` and `root` are as in `combine`. `names` and `weights` have one entry for each of the K components.
    `bounds`, (K, 2), has the lowest and highest score of each; NaN where a bound is not documented. StudyError if the
    method is unknown or has no such parameters, or if its call fails.
    """
    check_names(method, parameters, root)
    if parameters.get(RESCALE) not in (None, True, False):
        raise StudyError(f"{RESCALE}: {parameters[RESCALE]!r} is neither true nor false; write one of them")
    if in_a_file(method):
        return
    known = np.full((len(names), 2), np.nan) if bounds is None else np.asarray(bounds, float)
    low = np.where(np.isfinite(known[:, 0]), known[:, 0], 0.0)
    high = np.where(np.isfinite(known[:, 1]), known[:, 1], low + 1.0)
    generator = np.random.default_rng(0)
    scores = low + (high - low) * generator.random((8, len(names)))
    state: dict[str, Any] = {}
    for step in range(2):
        state = combine(
            method,
            parameters,
            scores,
            np.arange(8) // 4,
            np.asarray(weights, float),
            state,
            names=names,
            gram=np.eye(len(names)) if step else None,
            step=step,
            bounds=known,
            tokens=np.arange(1, 9),
            learning_rate=1e-6,
        ).state
