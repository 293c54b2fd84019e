"""Arguments and result of a method of combination, the workflow's or a user's.

`call` gives a method these arguments and checks its result, and `load` compares a method's parameters with them.
Authors of a method import `Combined` from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: Arguments that a method gets if it names them as keyword-only arguments. All other keyword-only arguments are
#: parameters.
#:
#: - gram: (K, K) array, inner products of the components' gradients at z-scored advantages; None if there is none,
#:   as in the first step without `gram: same_step`.
#: - step: number of optimiser steps done so far.
#: - names: tuple of the K names of the components.
#: - signs: (K,) array of 1 and -1, the signs of the weights. Scores and bounds are already multiplied by the signs. A
#:   method that compares a score with a number of the config multiplies by the sign once more.
#: - bounds: (K, 2) array, lowest and highest score; NaN where they are not known.
#: - tokens: (N,) int array, lengths of the completions.
#: - epsilon: added to standard deviations, as in TRL.
#: - learning_rate: learning rate of the coming step.
CONTEXT = ("gram", "step", "names", "signs", "bounds", "tokens", "epsilon", "learning_rate")

#: Arguments that every method gets by their position: see `call.call_method`.
POSITIONAL = ("scores", "groups", "weights", "state")


class Combined(NamedTuple):
    """Advantages of a generation batch of N completions, divided among K components.

    Parameters
    ----------
    advantages : (N, K) float array
        The part of each completion's advantage that each component contributes. A row sums to the advantage.
    state : dict
        JSON values that the method gets at the next generation; empty for a method without state.
    weights : (K,) float array, optional
        The weight or multiplier of each component at this generation; None if the method has none.
    conflicts : float, optional
        Share of completions, or of pairs of components, that are in conflict by the method's definition; None if the
        method defines no conflict.
    """

    advantages: np.ndarray
    state: dict[str, Any]
    weights: np.ndarray | None
    conflicts: float | None = None


#: ``(scores, groups, weights, state, *, context and parameters) -> Combined``.
Method = Callable[..., Combined]
