"""The arguments of a reward function: columns come from the trainer and the data, parameters come from the config."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reward_ablation.system.errors import StudyError

#: Keywords that TRL gives to every reward function, beside the columns of the data.
OF_TRAINER = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")

#: Columns of the training set that reach reward functions.
OF_PROBLEMS = ("problem_id", "question", "answer", "solution", "source", "split", "level", "subject")


@dataclass(frozen=True)
class Arguments:
    """The arguments of a reward function: columns that it names, and parameters that the config may set.

    `required` are the parameters without a default. `any_column` says whether the function takes columns that it does
    not name (`**columns`).
    """

    columns: tuple[str, ...]
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    any_column: bool

    def columns_among(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns that the function takes. A column never takes the place of a parameter."""
        return {
            name: column
            for name, column in columns.items()
            if name in self.columns or (self.any_column and name not in self.parameters)
        }


def arguments_of(reference: str, function: Callable, parameters: dict[str, Any]) -> Arguments:
    """Sort the arguments of a reward function into columns and parameters.

    An argument that has a default, or stands after `*`, is a parameter; any other argument is a column. An argument
    with the name of a column is a column also with a default or after `*`. There are two exceptions for columns of the
    data: what the config sets is a parameter, and so is an argument that stands after `*` and has a default.

    Parameters
    ----------
    reference : str
        The function as the config names it, for messages.
    function : callable
    parameters : dict
        The parameters that the config sets.

    Raises
    ------
    StudyError
        The function asks for an unknown column, or takes an argument by its position only.
    """
    columns, settable, required = [], [], []
    arguments = inspect.signature(function).parameters.values()
    any_column = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    for argument in arguments:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        if argument.kind is argument.POSITIONAL_ONLY:
            raise StudyError(
                f"components: {reference}: takes {argument.name!r} by its position; reward functions are called by "
                "keyword, as in TRL; take the / out of its arguments"
            )
        after_star, has_default = argument.kind is argument.KEYWORD_ONLY, argument.default is not argument.empty
        from_trainer = argument.name in OF_TRAINER
        can_be_set = (after_star or has_default) and not from_trainer
        is_set = can_be_set and (argument.name in parameters or (after_star and has_default))
        from_data = argument.name in OF_PROBLEMS and not is_set
        if from_trainer or from_data:
            columns.append(argument.name)
        elif not can_be_set:
            raise StudyError(
                f"components: {reference}: asks for the column {argument.name!r}, which the data does not have; "
                f"columns: {', '.join((*OF_TRAINER, *OF_PROBLEMS))}; a parameter has a default or stands after *"
            )
        elif not has_default:
            required.append(argument.name)
        if can_be_set:
            settable.append(argument.name)
    return Arguments(tuple(columns), tuple(settable), tuple(required), any_column)
