"""Whole groups for reward functions that compare completions, in a layout in which several processes share a group.

`build` wraps the functions by it. TRL calls a reward function in each process with the completions of this process: a
majority would be taken over 4 of the 8 completions of a group. Here the processes exchange their completions, one
process scores each group, and each gets the scores of its own completions.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object

from reward_ablation.system.errors import StudyError, first_line

#: Arguments of a reward function that are no columns: each process has its own.
_OF_PROCESS = ("trainer_state", "log_extra", "log_metric")


def cuts_groups(rows: int, group_size: int, processes: int) -> bool:
    """Whether a group has completions in several processes, each of which generates `rows` completions at a time."""
    return processes > 1 and rows % group_size != 0


@dataclass
class _Scored:
    """What a process scored: scores and logged columns of its groups' completions, or the error that ended its call."""

    scores: list = field(default_factory=list)
    extra: dict[str, list] = field(default_factory=dict)
    error: Exception | None = None


class WholeGroups:
    """Calls reward functions with whole groups of `group_size` completions."""

    def __init__(self, group_size: int):
        self.group_size = group_size
        self._completions: list | None = None  # of this process, in the batch whose columns are exchanged
        self._columns: dict[str, list] = {}  # of all processes

    def scoring(self, function: Callable[..., list]) -> Callable[..., list]:
        """Wrap a reward function, which all processes must call together; the first process of a group scores it.

        An error in one process is raised in all of them: the others would wait for that process for ever.
        """

        @wraps(function)
        def call(completions: list, **given: Any) -> list:
            columns = self._exchanged(completions, given)
            rank, rows = PartialState().process_index, len(completions)
            # This process scores the groups whose first completion it has.
            first, last = (-(-rows * process // self.group_size) * self.group_size for process in (rank, rank + 1))
            own = {name: column[first:last] for name, column in columns.items()}
            own |= {name: given[name] for name in _OF_PROCESS if name in given}
            mine = _score(function, own) if last > first else _Scored()
            scored: list[_Scored] = gather_object([mine])
            for number, each in enumerate(scored):
                if each.error is not None:  # the process that failed raises its own, which has a traceback
                    raise (mine.error if number == rank and mine.error else each.error)
            here = slice(rank * rows, (rank + 1) * rows)
            for column in dict.fromkeys(name for each in scored for name in each.extra):
                parts = (each.extra.get(column, [None] * len(each.scores)) for each in scored)
                given["log_extra"](column, [value for part in parts for value in part][here])
            return [score for each in scored for score in each.scores][here]

        return call

    def _exchanged(self, completions: list, given: dict[str, Any]) -> dict[str, list]:
        """The columns of all processes, in the order of the rows, exchanged once for all functions of a batch.

        TRL gives all functions of a batch the same list of completions, so another list is another batch.
        """
        if completions is not self._completions:
            own = {"completions": completions} | {name: given[name] for name in given if name not in _OF_PROCESS}
            parts = gather_object([own])
            self._columns = {name: [value for part in parts for value in part[name]] for name in own}
            self._completions = completions
        return self._columns


def _score(function: Callable[..., list], given: dict[str, Any]) -> _Scored:
    """Scores of whole groups by this process. What it returns can be sent to the other processes."""
    extra: dict[str, list] = defaultdict(list)
    if "log_extra" in given:
        given["log_extra"] = lambda column, values: extra[column].extend(values)
    rows = len(given["completions"])
    try:
        scored = _Scored(list(function(**given)), dict(extra))
        for column, values in extra.items():
            if len(values) != rows:
                raise StudyError(
                    f"components.{function.__name__}: log_extra: the column {column!r} has {len(values)} values for "
                    f"{rows} completions; log one value for each completion"
                )
        pickle.dumps(scored)
    except Exception as error:
        return _Scored(error=_sendable(error))
    return scored


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return StudyError(f"{type(error).__name__}: {first_line(error)}")
    return error
