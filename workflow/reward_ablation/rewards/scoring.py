"""What decides a component's scores: the call of its function, and how its output is read.

`load` finds the function, and `call` checks the scores and reports errors. Neither decides a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reward_ablation.rewards.arguments import Arguments

Scores = list[float | None]
#: TRL's reward signature: `(completions, **columns)`.
RewardFunction = Callable[..., Scores]


def output_of(function: Callable, arguments: Arguments, parameters: dict[str, Any], columns: dict[str, Any]) -> Any:
    """Call a reward function by keyword, with its parameters and the columns of the batch that it takes.

    An output that is an iterator is read to its end.
    """
    output = function(**{**arguments.columns_among(columns), **parameters})
    return list(output) if isinstance(output, Iterator) else output


def listed(output: Any) -> list | None:
    """The output of a reward function as a list; None where the output cannot be a list of scores."""
    if isinstance(output, str | bytes | dict | set):
        return None
    try:
        return list(output)
    except TypeError:
        return None


def score_of(value: Any) -> float | None:
    """A score as a float: None stays None, and a number that is too large becomes infinite.

    Raises
    ------
    ValueError
        The score is not a number.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes):
        raise ValueError("a text is not a number")
    try:
        return float(value)
    except OverflowError:
        return float("inf")
    except (TypeError, RuntimeError) as error:  # torch raises RuntimeError for a tensor of several numbers
        raise ValueError(str(error)) from error
