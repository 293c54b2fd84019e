"""One call of a user's reward function before the first job, as training makes it, with made-up completions.

A process of its own (`study.reward_import`) makes the call, so that the function cannot end or change the start.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.rewards.load import load_component
from reward_ablation.system.errors import PassingError, StudyError, first_line, refused_by_storage
from reward_ablation.system.exit_status import may_pass

#: Environment variable by which a user starts without the calls.
TRY = "REWARD_ABLATION_TRY_REWARDS"
#: How to start without the calls: the end of the message on a failed call.
WITHOUT = f"to start without this call, `export {TRY}=no`"
#: Errors that come from the function's code, whatever the problem.
_OF_THE_CODE = (NameError, ImportError, SystemExit)


class Trial(NamedTuple):
    """The batch of a call: one group of completions. If its problem is made up, the problem may cause an error."""

    columns: dict[str, list[Any]]
    made_up: bool


class Doubtful(StudyError):
    """An error that the jobs may not meet: this machine or a made-up problem may be the reason."""


class _State:
    """State of a trainer at its start. Reading it imports transformers, which takes seconds; most functions do not."""

    when = "called once before the first job with made-up completions"

    @cached_property
    def _state(self) -> Any:
        from transformers import TrainerState

        return TrainerState(epoch=0.0, max_steps=100, num_train_epochs=1)  # not 0: a function may divide by it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)


def is_wanted() -> bool:
    """Whether the user lets a start call the reward functions."""
    return os.environ.get(TRY, "").lower() not in ("no", "false", "0")


def made_up_completions(answer: str, number: int) -> list[str]:
    """Completions of one problem: with its answer in common forms, without an answer, and empty, in turn."""
    texts = (
        f"<think>\nStep 1: think.\n</think>\n<answer>\n{answer}\n</answer>",
        "",
        f"The answer is \\boxed{{{answer}}}.",
        "I do not know.",
        f"So the answer is {answer}.\n#### {answer}",
    )
    return [texts[place % len(texts)] for place in range(number)]


def call_once(function: str, parameters: dict[str, Any], root: Path, further: Sequence[str], trial: Trial) -> None:
    """Call a component's function once. If it fails, raise a StudyError whose line names the function alone."""
    component = load_component(function, parameters, root, function, section="", further=further)
    given = {"log_extra": lambda column, values: None, "log_metric": lambda name, value: None}
    try:
        component(**trial.columns, **given, trainer_state=_State())
    except StudyError as error:
        cause = error.__cause__
        from_code = not trial.made_up or cause is None or isinstance(cause, _OF_THE_CODE)
        kind = StudyError if from_code and not _of_this_machine(error) else Doubtful
        raise kind(str(error).removeprefix(".")) from error
    except Exception as error:  # a full disk or a GPU without memory, as `scored` leaves them
        raise Doubtful(f"{function}: {first_line(error)} ({_State.when})") from error


def _of_this_machine(error: StudyError) -> bool:
    """Whether the jobs, on other machines or later, may not meet the error: of a network, a disk or a missing GPU."""
    if isinstance(error, PassingError) or may_pass(error) or refused_by_storage(error):
        return True
    return any(word in str(error.__cause__) for word in ("CUDA", "NVIDIA"))
