"""What decides a component's scores: the call of its function, and how its output is read.

`load` finds the function. `call` uses this module for each call, checks the scores and reports errors. Neither of the
two decides a score, so a change there trains no run again, and a change here does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from reward_ablation.rewards.arguments import Arguments

Scores = list[float | None]
#: TRL's reward signature: `(completions, **columns)`.
RewardFunction = Callable[..., Scores]


def output_of(function: Callable, arguments: Arguments, parameters: dict[str, Any], columns: dict[str, Any]) -> Any:
    """Call a reward function by keyword, with its parameters and the columns of the batch that it takes.

    The function gets copies: what it changes in its arguments reaches no other function, no later call and no record.
    An output that is an iterator is read to its end.
    """
    given = copied(arguments.columns_among(columns))
    if (state := given.get("trainer_state")) is not None:
        given["trainer_state"] = own = copy(state)
        vars(own).update(copied(vars(own)))
    output = function(**{**given, **copied(parameters)})
    return list(output) if isinstance(output, Iterator) else output


def copied(value: Any) -> Any:
    """A copy with new lists and dicts at every depth. JSON's other values cannot be changed, and are not copied."""
    if not isinstance(value, list | dict):
        return value
    entries = value.values() if isinstance(value, dict) else value
    if not any(issubclass(kind, list | dict) for kind in set(map(type, entries))):
        return value.copy()  # many times as fast, for token ids
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value]


def listed(output: Any) -> list | None:
    """The output of a reward function as a list; None where the output cannot be a list of scores."""
    if isinstance(output, str | bytes | dict | set):
        return None
    try:
        return list(output)
    except TypeError:
        return None


def score_of(value: Any) -> float | None:
    """A score as a float: None stays None, a number that is too large becomes infinite. ValueError for no number."""
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
