"""Imports of users' reward files in a process of its own, `python -m reward_ablation.study.reward_import`.

The full check starts it before the first job. The process also calls each function once (`rewards.trial`), and cannot
end or change the start. Planning runs no code of a study: it reads the text of the file (`reward_signature`), unless
the environment variable `RUN_CODE` says yes. `range_of` has the ranges of scores, which methods of combination take.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from reward_ablation.rewards.arguments import Arguments, arguments_of
from reward_ablation.rewards.load import (
    _check_parameters,  # its digest is part of some keys, so it stays as it is
    check_component,
    function_in_file,
    marks_of_component,
    may_name_markers,
)
from reward_ablation.rewards.parameters import NAMES, Mark, marks_of
from reward_ablation.rewards.trial import WITHOUT, Doubtful, Trial, call_once
from reward_ablation.study.reward_files import refuse_uncounted
from reward_ablation.study.reward_signature import NotInTree, signature_in_file
from reward_ablation.system.errors import StudyError
from reward_ablation.system.user_functions import in_a_file, names_a_module, user_file

#: Environment variable by which a user lets planning, commands and dry runs import reward files too.
RUN_CODE = "REWARD_ABLATION_RUN_CODE"

#: Seconds for one such process: for the imports of all reward files of training, or of metrics, or for the calls of
#: functions. torch takes a minute on some network file systems.
PATIENCE = 300


class Request(NamedTuple):
    """A function of a user's file to be imported, or with a trial to be called."""

    section: str
    function: str
    parameters: dict[str, Any] | None = None
    further: Sequence[str] = ()
    trial: Trial | None = None


class Imported(NamedTuple):
    """The arguments of an imported function, and the markers of its parameters. A method of combination has neither."""

    arguments: Arguments | None
    marks: dict[str, Mark]


def planned_arguments(function: str, parameters: dict[str, Any], root: Path, further: Sequence[str] = ()) -> Arguments:
    """Arguments of a component's function, after the checks of `check_component` that need no import."""
    if not in_a_file(function):
        return check_component(function, parameters, root, further=further)[1]
    if _may_run_code():
        imported = _imported_for_plan(Request("components", function, parameters, further), root).arguments
        assert imported
        return imported
    found = _signature(function, root)
    if not isinstance(column := parameters.get("column", ""), str):
        raise StudyError(f"components: {function}: column: {column!r} is no text; name a column of the data")
    arguments = arguments_of(function, found, parameters, further)
    _check_parameters(function, found, arguments, parameters, os.environ)
    return arguments


def defaults_of(function: str, root: Path) -> dict[str, Any]:
    """Defaults of a user's function by argument, as far as its file says; `...` for one that is no literal."""
    try:
        signature = inspect.signature(signature_in_file(function, root)) if in_a_file(function) else inspect.Signature()
    except NotInTree:
        return {}
    every = signature.parameters.items()
    return {name: argument.default for name, argument in every if argument.default is not argument.empty}


def replaced_defaults(where: str, function: str, arguments: Arguments, root: Path) -> list[str]:
    """A warning for each argument that gets a column in place of its default, perhaps to the surprise of its author."""
    return [
        f"{where}: {function}: the argument {name} gets the column of this name, not its default; if it is a "
        "parameter, set it, put * before it, or rename it"
        for name, default in defaults_of(function, root).items()
        if name in arguments.columns and default is not None
    ]


def planned_marks(function: str, root: Path) -> dict[str, Mark]:
    """Markers of a component's parameters, by parameter, without an import of a user's file."""
    if not in_a_file(function):
        return marks_of_component(function, root)
    if not may_name_markers(function, root):
        return {}
    if _may_run_code():
        return _imported_for_plan(Request("components", function), root).marks
    return marks_of(_signature(function, root))


def _signature(function: str, root: Path) -> Callable:
    """As `signature_in_file`, with what to do where the text of the file says too little."""
    try:
        return signature_in_file(function, root)
    except NotInTree as error:
        raise StudyError(f"{error}; {_what_to_do(function)}") from None


def check_imports(requests: Mapping[str, Request], root: Path, patience: float = PATIENCE) -> None:
    """Refuse files that cannot be imported, or whose functions have other arguments than planning has read."""
    # Answers may be fewer than requests: the last one then is the error of the function that ended the process.
    every = list(requests.values())
    for (key, request), imported in zip(requests.items(), _ask(every, root, patience), strict=False):
        if isinstance(imported, StudyError):
            raise StudyError(f"{key}: {str(imported).removeprefix(f'{request.section}: ')}")
        if request.parameters is None:
            continue
        planned = planned_arguments(request.function, request.parameters, root, request.further)
        if differences := _differences(Imported(planned, planned_marks(request.function, root)), imported):
            raise StudyError(
                f"{key}: {request.function}: once imported, the function has other arguments than the text of the file "
                f"says, perhaps by a decorator: {'; '.join(differences)}; {_what_to_do(request.function)}"
            )


def _differences(read: Imported, imported: Imported) -> list[str]:
    """What an import says of a function's arguments other than the text of its file, each in a few words."""
    labels = {
        "columns": "columns",
        "parameters": "parameters",
        "required": "parameters without a default",
        "any_column": "takes any column",
        "named": "column that the parameter 'column' names",
    }
    pairs = [(text, getattr(imported.arguments, key), getattr(read.arguments, key)) for key, text in labels.items()]
    by_mark = dict(zip(Mark, NAMES, strict=True))
    for name in sorted(imported.marks | read.marks):
        now, then = (by_mark[each.marks[name]] if name in each.marks else () for each in (imported, read))
        pairs.append((f"marker of {name!r}", now, then))
    return [f"{text}: {_shown(now)} (in the text: {_shown(then)})" for text, now, then in pairs if now != then]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else ", ".join(value) or "none"


def check_calls(requests: Mapping[str, Request], root: Path, patience: float = PATIENCE) -> list[str]:
    """Call reward functions once: lines on failures that jobs may not meet, a StudyError on another."""
    doubts = []
    for key, error in zip(requests, _ask([*requests.values()], root, patience), strict=False):
        if isinstance(error, Doubtful):
            doubts.append(f"{key}: {error}; the jobs may meet the same error")
        elif isinstance(error, StudyError):
            raise StudyError(f"{key}: {str(error).removeprefix('components: ')}; {WITHOUT}")
    return doubts


def _may_run_code() -> bool:
    return os.environ.get(RUN_CODE, "").lower() in ("yes", "true", "1")


def _what_to_do(function: str) -> str:
    if names_a_module(function):
        return (
            "check the name, or name the module that defines the function, or trust the module and "
            f"`export {RUN_CODE}=yes`: planning then imports it, in a process of its own"
        )
    return (
        f"write them in the file, as in `def {function.rpartition(':')[2]}(completions, ...)`, or trust the file and "
        f"`export {RUN_CODE}=yes`: planning then imports it, in a process of its own"
    )


def _imported_for_plan(request: Request, root: Path) -> Imported:
    """What an import says of a function; StudyError if the file does not load, or refuses the parameters."""
    try:
        text = user_file(request.function, root).read_bytes()
    except OSError:  # the import says so
        text = b""
    imported = _imported_once(json.dumps(request), text, root)
    if isinstance(imported, StudyError):
        raise imported
    return imported


@cache  # by the `text` of the file too, so that an edited file is imported again
def _imported_once(request: str, text: bytes, root: Path) -> Imported | StudyError:
    return _ask([Request(*json.loads(request))], root, PATIENCE)[0]


def _ask(requests: Sequence[Request], root: Path, patience: float) -> list[Imported | StudyError]:
    """What imports in one process of its own say of each function, up to a function that ends the process."""
    with TemporaryFile("w+") as questions, TemporaryFile("w+") as answers:
        questions.writelines(f"{json.dumps(request, default=str)}\n" for request in requests)
        questions.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            cwd=root,
            stdin=questions,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        status = None
        try:
            status = process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        answers.seek(0)
        results = [_read(line) for line in answers]
    if len(results) < len(requests):
        results.append(StudyError(_ending_text(requests[len(results)], status, patience)))
    return results


def _ending_text(request: Request, status: int | None, patience: float) -> str:
    """How a function ended the process, or that it had no end in time, if the status is None."""
    file = request.function.rpartition(":")[0]
    subject, verb = ("the function", "calls") if request.trial else (file, "imports")
    if status is None:
        ending = f"{'has not returned' if request.trial else 'does not load'} within {patience:g} seconds"
    else:
        ending = f"ends the process that {verb} it, by {f'signal {-status}' if status < 0 else f'exit status {status}'}"
    return f"{request.section}: {request.function}: {subject} {ending}"


def _read(line: str) -> Imported | StudyError:
    """One line of the other process; a StudyError also for a line that a user's file has written there."""
    try:
        answer = json.loads(line)
        if "error" in answer:
            return (Doubtful if answer["doubtful"] else StudyError)(answer["error"])
        arguments = answer["arguments"] and TypeAdapter(Arguments).validate_python(answer["arguments"])
        return Imported(arguments, {name: Mark[mark] for name, mark in answer["marks"].items()})
    except (ValueError, TypeError, KeyError, AttributeError):
        return StudyError("a reward file writes to the process that imports it; let it write nothing when imported")


def _answer(request: Request) -> dict[str, Any]:
    """Import or call a function; its arguments and markers, or an error, for the process that asks."""
    section, function, parameters, further, trial = request
    root = Path.cwd()
    arguments: dict[str, Any] | None = None
    marks: dict[str, Mark] = {}
    try:
        if trial:
            call_once(function, parameters or {}, root, further, Trial(*trial))
        elif section == "combination":
            function_in_file(function, root, section)
        else:
            marks = marks_of_component(function, root)
        if parameters is not None and not trial:
            arguments = dataclasses.asdict(check_component(function, parameters, root, further=further)[1])
        if in_a_file(function):
            refuse_uncounted(function, root)
    except StudyError as error:
        return {"error": str(error), "doubtful": isinstance(error, Doubtful)}
    return {"arguments": arguments, "marks": {name: mark.name for name, mark in marks.items()}}


def main() -> None:
    """Answer each line of stdin with a line. What the imported files themselves print is dropped."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            print(json.dumps(_answer(Request(*json.loads(line)))), file=answers, flush=True)
    os._exit(0)  # without waiting for threads that a reward function has started


#: Ends of the range by function: numbers, or names of parameters. The lowest and the highest of the values count.
RANGES: dict[str, tuple[float | str, ...]] = {
    **dict.fromkeys(("answer_format", "boxed_answer", "character_length", "correctness", "instructions"), (0.0, 1.0)),
    **dict.fromkeys(("keyword_steps", "random", "step_format", "tag_count", "token_length", "unit_tests"), (0.0, 1.0)),
    "cosine_length": ("min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct"),
    **dict.fromkeys(("diversity", "majority"), (0.0, 1.0)),
    "final_line": ("correct", "well_formed", "malformed"),
    "judge": ("low", "high"),
    "relative_length": (-0.5, 0.5),
    "repetition_penalty": ("max_penalty", 0.0),
    "signed_answer": (-1.0, 1.0),
    "soft_overlong": (-1.0, 0.0),
    "think_answer_tags": ("well_formed", "malformed"),
    "three_way_verifier": ("correct", "wrong", "missing"),
}


def range_of(function: str, parameters: dict[str, Any], root: Path) -> tuple[float, float] | None:
    """Lowest and highest score of a component; None where they are not known, or are equal."""
    if in_a_file(function) or function not in RANGES:
        return None
    reward: Callable = check_component(function, parameters, root)[0]
    defaults = {name: parameter.default for name, parameter in inspect.signature(reward).parameters.items()}
    ends = [float({**defaults, **parameters}[end] if isinstance(end, str) else end) for end in RANGES[function]]
    return (min(ends), max(ends)) if min(ends) < max(ends) else None


if __name__ == "__main__":
    main()
