"""One call of a reward function, as TRL makes it, and the check of its scores. `load` puts it around each component.

It is apart from `scoring`, because nothing here decides a score: another check or message trains no run again.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from pathlib import Path
from typing import Any

from reward_ablation.rewards.arguments import Arguments
from reward_ablation.rewards.scoring import Scores, listed, output_of, score_of
from reward_ablation.system.errors import PassingError, StudyError, refused_by_storage
from reward_ablation.system.plain_values import printable

#: The largest number that TRL's tensors of rewards can hold (float32).
_LARGEST = 3.4028234663852886e38

_ADVICE = "a score is a finite number, or None where there is none"
#: Takes secrets out of a text.
Hide = Callable[[str], str]


def _checked_scores(name: str, output: Any, columns: dict[str, Any], hide: Hide) -> Scores:
    """The output of a component's function as floats; StudyError if the output is not one score per completion."""
    expected = len(columns["completions"])
    where = f"{name}: {_when(columns)}"
    scores = listed(output)
    if scores is None:
        raise StudyError(f"{where}: the function returned {_shown(output, hide)}; return a list of scores; {_ADVICE}")
    if len(scores) != expected:
        raise StudyError(
            f"{where}, {_problems(columns)}: the function returned {len(scores)} scores for {expected} completions; "
            f"return one score for each; {_ADVICE}"
        )
    return [_number(score, f"{where}, {_problems(columns, place)}", hide) for place, score in enumerate(scores)]


def _checked_log(log: Callable[[str, list], None], expected: int, hide: Hide) -> Callable[[str, Any], None]:
    """TRL's `log_extra` of one call: passes to `log` a column of JSON values, one for each completion of the call."""
    logged: set[str] = set()

    def log_extra(column: str, values: Any) -> None:
        where = f"log_extra: column {_shown(column, hide)}"
        if not isinstance(column, str):
            raise StudyError(f"{where}: the name of a column is a text")
        if column in logged:
            raise StudyError(f"{where} is logged twice in one call; give each column a name of its own")
        own = listed(values)
        if own is None or len(own) != expected:
            given = f"is {_shown(values, hide)}" if own is None else f"has {len(own)} values"
            raise StudyError(
                f"{where} {given} for {expected} completions; give a list with one value for each, and None for a "
                "completion without a value"
            )
        logged.add(column)
        log(column, [_json_value(value, where, hide) for value in own])

    return log_extra


def _json_value(value: Any, where: str, hide: Hide) -> Any:
    """A copy of a value as JSON has it; numbers and arrays of NumPy and torch become Python's."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=lambda array: array.tolist()))
    except (TypeError, ValueError, AttributeError, RecursionError):
        raise StudyError(
            f"{where} has the value {_shown(value, hide)}; a value is None, a finite number, a text, a boolean, or a "
            "list or object of these"
        ) from None


def _number(score: Any, where: str, hide: Hide) -> float | None:
    try:
        number = score_of(score)
    except ValueError:
        raise StudyError(f"{where}: the score is {_shown(score, hide)}, which is not a number; {_ADVICE}") from None
    if number is not None and not abs(number) <= _LARGEST:
        raise StudyError(f"{where}: the score is {_shown(score, hide)}; {_ADVICE}")
    return number


def scored(
    name: str, function: Callable, arguments: Arguments, parameters: dict[str, Any], columns: dict[str, Any], hide: Hide
) -> Scores:
    """Call the reward function of a component, as `output_of` does, and check its scores.

    `name` is the component with its section, as in `components.length`. Messages take the step and the problem from the
    columns, and `hide` takes secrets out of texts.

    A StudyError is raised if the function fails, wants to exit or changes the state of the process, if there is not one
    score for each completion, or if a score is neither None nor a finite float32. For a failure, it is one line with
    the component, the line of the function, the error and the step. A full disk and a GPU without memory keep
    their own exceptions, because training handles these.
    """
    if log := columns.get("log_extra"):
        columns = {**columns, "log_extra": _checked_log(log, len(columns["completions"]), hide)}
    with refusing_changes(f"{name}: {_when(columns)}, {_problems(columns)}: the function"):
        output = _output(name, function, arguments, parameters, columns, hide)
    return _checked_scores(name, output, columns, hide)


def _output(
    name: str, function: Callable, arguments: Arguments, parameters: dict[str, Any], columns: dict[str, Any], hide: Hide
) -> Any:
    """The output of a component's function, whose errors become one line; the arguments are those of `scored`."""
    try:
        return output_of(function, arguments, parameters, columns)
    except (Exception, SystemExit) as error:
        if refused_by_storage(error) or type(error).__name__ == "OutOfMemoryError":  # the second is torch's
            raise
        where = f"{_when(columns)}, {_problems(columns)}"
        if isinstance(error, StudyError):  # the component's own message is complete
            kind = PassingError if isinstance(error, PassingError) else StudyError
            raise kind(f"{name}: {hide(str(error))} ({where})") from error
        _print_own_traceback(error, hide)
        line = f"{line_in(unwrap(function).__code__.co_filename, error)}{described(error, hide)}"
        # Keep the cause: the exit status of the command depends on it, since a failed network may come back.
        raise StudyError(f"{name}: {line} ({where})") from error


def _print_own_traceback(error: BaseException, hide: Hide) -> None:
    """Print the part of a traceback that is below the call of the reward function."""
    call = error.__traceback__.tb_next if error.__traceback__ else None  # the frame of `output_of`
    own_frames = call.tb_next if call else None
    lines = "".join(traceback.TracebackException(type(error), error, own_frames).format())
    print("\n".join(printable(line) for line in hide(lines).splitlines()), file=sys.stderr, flush=True)


def line_in(file: str, error: BaseException) -> str:
    """The last line of a file in a traceback, as "file, line 3, `return 1 / 0`: "; empty if the file is not in it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return ""
    path, frame = Path(file), frames[-1]
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    text = f", `{frame.line}`" if frame.line else ""
    return f"{shown}, line {frame.lineno}{text}: "


def described(error: BaseException, hide: Hide = str) -> str:
    """An error in one line: its class and its message."""
    message = printable(" ".join(hide(str(error)).split()))
    if len(message) > 300:  # such as an answer of a model
        message = f"{message[:300]}..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _when(columns: dict[str, Any]) -> str:
    """When a batch is scored: at an optimiser step, before the first job, or in evaluation, which has no trainer."""
    state = columns.get("trainer_state")
    if state is None:
        return "in evaluation"
    return getattr(state, "when", None) or f"at step {state.global_step + 1}"


def _problems(columns: dict[str, Any], place: int | None = None) -> str:
    """The problem of the completion at index `place` of a batch; without it the problems of all."""
    ids = columns.get("problem_id")
    if ids is None:
        return f"completion {place}" if place is not None else "all completions"
    names = list(dict.fromkeys(ids)) if place is None else [ids[place]]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"problem{'s' if len(names) > 1 else ''} {', '.join(map(str, names[:3]))}{more}"


def _shown(value: Any, hide: Hide) -> str:
    text = printable(" ".join(hide(repr(value)).split()))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _state() -> dict[str, object]:
    """State of this process, by the call that reads it. While torch is not imported, torch's defaults count."""
    torch = sys.modules.get("torch")  # this package imports no torch
    return {
        "torch.is_grad_enabled()": torch.is_grad_enabled() if torch else True,
        "torch.get_default_dtype()": str(torch.get_default_dtype()) if torch else "torch.float32",
        "os.getcwd()": os.getcwd(),
    }


@contextmanager
def refusing_changes(where: str) -> Iterator[None]:
    """Refuse code that leaves the state of the process changed. `where` names the code, for the message."""
    before = _state()
    yield
    for call, now in _state().items():
        if now != before[call]:
            raise StudyError(
                f"{where} changes {call} from {before[call]} to {now}, with which the training would go on; put it "
                "back, as `with torch.no_grad():` and `contextlib.chdir` do"
            )
