"""What decides a component's scores: what its function is called with, and what the function's output counts as.

`call` and `load` are around this: they find the function, check what it is given, and say what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reward_ablation.rewards.arguments import Arguments

Scores = list[float | None]
#: TRL's reward signature: `(completions, **columns)`.
RewardFunction = Callable[..., Scores]


def output_of(function: Callable, arguments: Arguments, parameters: dict[str, Any], columns: dict[str, Any]) -> Any:
    """Output of a reward function, called by keyword; an iterator is read to its end.

    Parameters
    ----------
    function : callable
    arguments : Arguments
        The function's.
    parameters : dict
        What the config sets.
    columns : dict
        All columns of the batch, `completions` among them; the function gets those that it takes.
    """
    output = function(**{**arguments.columns_among(columns), **parameters})
    return list(output) if isinstance(output, Iterator) else output


def listed(output: Any) -> list | None:
    """The output of a reward function as a list; None where it is no list of scores."""
    if isinstance(output, str | bytes | dict | set):
        return None
    try:
        return list(output)
    except TypeError:
        return None


def score_of(value: Any) -> float | None:
    """A score as a float, None where the component gave none; infinite where it is too large for a float.

    Raises
    ------
    ValueError
        The value is not a number.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes):
        raise ValueError("a text is not a number")
    try:
        return float(value)
    except OverflowError:
        return float("inf")
    except (TypeError, RuntimeError) as error:  # torch has the second for a tensor of several numbers
        raise ValueError(str(error)) from error
