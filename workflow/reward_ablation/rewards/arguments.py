"""The arguments of a reward function: columns come from the trainer and the data, parameters come from the config.

`load` sorts the arguments once, and `scoring` hands over what the function takes at each call. Planning sorts those of
a user's function too, from the text of its file (`study.reward_import`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reward_ablation.system.errors import StudyError

#: Keywords that TRL passes to every reward function, in addition to the columns of the data.
OF_TRAINER = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
#: Columns that reach reward functions from every prepared set. A user's file may have further columns.
OF_PROBLEMS = ("problem_id", "question", "answer", "solution", "source", "split", "level", "subject")


@dataclass(frozen=True)
class Arguments:
    """The arguments of a reward function, sorted into columns and parameters, which the config may set."""

    columns: tuple[str, ...]  # columns that the function names as arguments
    parameters: tuple[str, ...]
    required: tuple[str, ...]  # parameters without a default
    any_column: bool  # whether the function also takes columns that it does not name (`**columns`)
    named: tuple[str, ...] = ()  # the column that the parameter `column` names, if there is one

    @property
    def asked(self) -> tuple[str, ...]:
        """All columns that the function asks for, by its arguments and by its parameter `column`."""
        return (*self.columns, *self.named)

    def columns_among(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Those of the given columns that the function takes. A column never takes the place of a parameter."""
        return {
            name: column
            for name, column in columns.items()
            if name in self.columns or (self.any_column and name not in self.parameters)
        }


def arguments_of(
    reference: str, function: Callable, parameters: dict[str, Any], further: Sequence[str] = ()
) -> Arguments:
    """Sort the arguments of a reward function into columns and parameters.

    An argument that has a default or stands after `*` is a parameter. Any other argument is a column.

    An argument with the name of a column is a column even if it has a default or stands after `*`. Columns of the data
    have two exceptions: such an argument is a parameter if the config sets it, or if it stands after `*` and has a
    default. The value of a parameter `column` also counts as a column that the function asks for.

    `further` names the columns that the data has in addition to `OF_PROBLEMS`. Messages name the function by
    `reference`. StudyError if the function or its parameter `column` asks for an unknown column, or if an argument is
    by position only.
    """
    of_data = (*OF_PROBLEMS, *further)
    columns, settable, required, named = [], [], [], []
    arguments = inspect.signature(function).parameters.values()
    any_column = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    for argument in arguments:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if argument.kind is argument.POSITIONAL_ONLY:
            raise StudyError(
                f"components: {reference}: takes {argument.name!r} by its position; reward functions are called by "
                "keyword, as in TRL; remove the / from its arguments"
            )
        after_star, has_default = argument.kind is argument.KEYWORD_ONLY, argument.default is not argument.empty
        from_trainer = argument.name in OF_TRAINER
        can_be_set = (after_star or has_default) and not from_trainer
        is_set = can_be_set and (argument.name in parameters or (after_star and has_default))
        from_data = argument.name in of_data and not is_set
        if from_trainer or from_data:
            columns.append(argument.name)
        elif not can_be_set:
            raise StudyError(
                f"components: {reference}: asks for the column {argument.name!r}, which the data does not have; "
                f"columns: {', '.join((*OF_TRAINER, *of_data))}; a parameter has a default or stands after *, and "
                "data.train.columns gives a file further columns"
            )
        elif not has_default:
            required.append(argument.name)
        if can_be_set:
            settable.append(argument.name)
        if argument.name == "column" and can_be_set and not from_data:
            named += _named_column(reference, parameters.get("column", argument.default), of_data)
    return Arguments(tuple(columns), tuple(settable), tuple(required), any_column, tuple(named))


def _named_column(reference: str, name: Any, of_data: Sequence[str]) -> list[str]:
    """The column that a parameter `column` names, in a list; StudyError where the data does not have it."""
    if not isinstance(name, str):
        return []
    if name not in of_data:
        raise StudyError(
            f"components: {reference}: column: the data does not have the column {name!r}; columns: "
            f"{', '.join(of_data)}; data.train.columns gives a file further columns"
        )
    return [name]
