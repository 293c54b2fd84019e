"""Imports of reward files in a process of their own, and planning where the text of a file says too little."""

import json
import os

import pytest

from configs import refusal
from reward_ablation.rewards.trial import Trial, made_up_completions
from reward_ablation.study.resolve import resolve
from reward_ablation.study.reward_import import (
    RUN_CODE,
    Request,
    check_calls,
    check_imports,
)
from reward_ablation.system.errors import StudyError

MINE = """
import functools
import os
import sys
from pathlib import Path

from reward_ablation.rewards.parameters import FilePath

Path(__file__).with_name("PROCESS").write_text(str(os.getpid()))
print("the file speaks")
COLUMN = str("answer")


def kept(function):
    @functools.wraps(function)
    def call(*arguments, **keywords):
        return function(*arguments, **keywords)

    return call


def other(function):
    def call(completions, answer, *, words):
        return function(completions)

    return call


def make():
    def made(completions, answer, *, words: FilePath, limit: int = 3):
        return [1.0]

    return made


made = make()


@kept
def right(completions, *, words: FilePath, limit: int = 3):
    return [1.0]


@other
def wrong(completions, *, words: FilePath):
    return [1.0]


def marked(function):
    function.__annotations__["words"] = FilePath
    return function


@marked
def unmarked(completions, *, words: str):
    return [1.0]


def named(completions, *, column=COLUMN, **columns):
    return [1.0]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "words.txt").write_text("a b")
    return tmp_path


def request_of(function, **parameters):
    return {"components.x": Request("components", f"mine.py:{function}", parameters)}


def test_a_file_that_loads_is_imported_in_another_process(folder, capfd):
    check_imports(request_of("right", words="words.txt"), folder)
    assert int((folder / "PROCESS").read_text()) != os.getpid()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("os._exit(0)", "mine.py ends the process that imports it, by exit status 0"),
        ("os.kill(os.getpid(), 9)", "mine.py ends the process that imports it, by signal 9"),
        ("raise SystemExit(3)", "mine.py does not load: mine.py, line 3, `raise SystemExit(3)`: SystemExit: 3"),
        ("while True: pass", "mine.py does not load within 1 seconds"),
        ("os.write(3, b'[1]\\n')", "a reward file writes to the process that imports it"),
    ],
)
def test_a_file_that_does_not_load_is_one_line(folder, statement, line):
    (folder / "mine.py").write_text(f"import os\ndef f(completions): ...\n{statement}\n")
    with pytest.raises(StudyError) as told:
        check_imports(request_of("f"), folder, patience=1 if "while" in statement else 60)
    assert line in str(told.value)
    assert str(told.value).startswith("components.x: ")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("arguments", "parameters", "warned"),
    [
        ("completions, level='easy', split='x'", {"split": "y"}, ["level"]),
        ("completions, level=None, limit=3, log_extra=None", {}, []),
        ("completions, level, *, split='x'", {}, []),
    ],
)
def test_an_argument_that_gets_a_column_for_its_default_is_told(tmp_path, config, arguments, parameters, warned):
    (tmp_path / "mine.py").write_text(f"def f({arguments}): ...\n")
    config["components"]["x"] = {"function": "mine.py:f", "parameters": parameters}
    config["evaluation"]["metrics"] = {
        "y": {"function": "mine.py:f", "parameters": parameters, "range": [0, 1]},
        "of_x": {"component": "x", "range": [0, 1]},
    }
    told = [line for line in resolve(config, "study.yaml", tmp_path).warnings if "not its default" in line]
    keys = ("components.x", "evaluation.metrics.y")
    text = "gets the column of this name, not its default; if it is a parameter, set it, put * before it, or rename it"
    assert told == [f"{key}: mine.py:f: the argument {name} {text}" for key in keys for name in warned]


INSERTED = "import sys\nsys.path.insert(0, 'src')\n"


@pytest.mark.parametrize(
    ("text", "file", "refused"),
    [
        (f"{INSERTED}import other_helper\n", "src/other_helper.py", True),
        (f"{INSERTED}from other_helper import *\n", "src/other_helper/__init__.py", True),
        (f"{INSERTED}import late_helper\n", "src/other_helper.py", True),  # imported by a helper
        ("import other_helper\n", "PYTHONPATH/other_helper.py", True),
        ("from src import other_helper\n", "src/other_helper.py", False),
        ("import other_helper\n", "other_helper.py", False),
        (f"{INSERTED}import other_helper\n", "src/site-packages/other_helper.py", False),  # installed
        (f"{INSERTED}import importlib\nimportlib.import_module('other_' + 'helper')\n", "src/other_helper.py", False),
    ],
)
def test_a_helper_whose_code_does_not_count_is_refused(tmp_path, monkeypatch, text, file, refused):
    """It is found where the digest does not look; modules whose names are made at run time never count."""
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("")
    (tmp_path / "late_helper.py").write_text("import other_helper\n")
    if "site-packages" in file:
        text = text.replace("'src'", "'src/site-packages'")
    if "PYTHONPATH" in file:
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'PYTHONPATH'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    of_combination = "PYTHONPATH" in file
    arguments = "scores, groups, weights, state" if of_combination else "completions"
    (tmp_path / "mine.py").write_text(f"{text}def f({arguments}): ...\n")
    requests = {"arms.a.combine": Request("combination", "mine.py:f")} if of_combination else request_of("f")
    if not refused:
        check_imports(requests, tmp_path)
        return
    with pytest.raises(StudyError) as told:
        check_imports(requests, tmp_path)
    line = f"mine.py:f: imports other_helper from {tmp_path / file}, where the runs' keys do not count its code; "
    assert str(told.value).startswith(f"{next(iter(requests))}: {line}")


def test_the_first_file_that_ends_the_process_is_named(folder):
    (folder / "ending.py").write_text("import os\nos._exit(1)\ndef f(completions): ...\n")
    requests = {
        "components.first": Request("components", "mine.py:right", {"words": "words.txt"}),
        "components.second": Request("components", "ending.py:f", {}),
        "arms.a.combine": Request("combination", "mine.py:right"),
    }
    with pytest.raises(StudyError, match=r"^components\.second: ending\.py:f: ending\.py ends the process"):
        check_imports(requests, folder)
    del requests["components.second"]
    check_imports(requests, folder)


#: Functions of which the text of the file says too little, or something else than the import.
UNKNOWN = [
    ("wrong", {"words": "words.txt"}, "columns: completions, answer (in the text: completions); marker of 'words': no"),
    ("named", {}, "says, perhaps by a decorator: column that the parameter 'column' names: answer (in the text: none)"),
    ("unmarked", {"words": "words.txt"}, "decorator: marker of 'words': FilePath (in the text: none); "),
]


def test_an_import_that_says_something_else_stops_the_start(folder, monkeypatch):
    requests = {}
    for function, parameters, difference in UNKNOWN:
        with pytest.raises(StudyError, match="has other arguments than the text of the file says") as told:
            check_imports(request_of(function, **parameters), folder)
        assert difference in str(told.value)
        assert RUN_CODE in str(told.value)
        requests[function] = Request("components", f"mine.py:{function}", parameters)
    monkeypatch.setenv(RUN_CODE, "yes")
    check_imports(requests, folder)


def test_a_function_without_a_def_is_planned_after_a_word(folder, config, monkeypatch):
    config["components"]["mine"] = {"function": "mine.py:made", "parameters": {"words": "words.txt"}}
    config["arms"]["arms"]["a"]["weights"]["mine"] = 1
    with pytest.raises(StudyError) as told:
        resolve(config, "study.yaml", folder)
    assert str(told.value) == (
        "study.yaml: components.mine: mine.py:made: its arguments are not in the text of the file: line 36 defines it "
        "without `def`; write them in the file, as in `def made(completions, ...)`, or trust the file and "
        f"`export {RUN_CODE}=yes`: planning then imports it, in a process of its own"
    )
    assert not (folder / "PROCESS").exists()
    monkeypatch.setenv(RUN_CODE, "yes")
    study = resolve(config, "study.yaml", folder)
    assert int((folder / "PROCESS").read_text()) != os.getpid()
    [component] = [each for name, each in next(iter(study.runs.values())).arm_spec.components.items() if name == "mine"]
    assert list(component.contents) == ["words"]
    config["components"]["mine"]["parameters"]["limt"] = 1
    with pytest.raises(StudyError, match="unknown parameter 'limt'"):
        resolve(config, "study.yaml", folder)


def trial_of(function, made_up=False, **parameters):
    """A request to call a function with four completions of one problem."""
    columns = {"completions": made_up_completions("42", 4), "problem_id": ["mine/7"] * 4, "answer": ["42"] * 4}
    return {"components.x": Request("components", f"mine.py:{function}", parameters, (), Trial(columns, made_up))}


#: What a function does, and what is told of it.
FAULTS = [
    ("return undefined", "mine.py, line 4, `return undefined`: NameError: name 'undefined' is not defined"),
    ("sys.exit(3)", "mine.py, line 4, `sys.exit(3)`: SystemExit: 3"),
    ("return [1.0]", "the function returned 1 scores for 4 completions"),
    ("os._exit(3)", "the function ends the process that calls it, by exit status 3"),
    ("return log_extra('column')", "TypeError: "),
]  # fmt: skip
#: What a made-up problem, or this machine, may be the reason for.
DOUBTFUL = [
    ("return [{'72': 1.0}[answer[0]]] * 4", "KeyError: '42'", True),
    ("raise ConnectionRefusedError('the judge is not there')", "the judge is not there", False),
    ("raise RuntimeError('Found no NVIDIA driver on your system')", "Found no NVIDIA driver", False),
    ("raise MemoryError('CUDA out of memory')", "CUDA out of memory", False),
    ("raise OutOfMemoryError('no memory left')", "py:f: no memory left (called once", False),
]
FUNCTION = """import os, sys
class OutOfMemoryError(RuntimeError): pass
def f(completions, answer, log_extra):
    {}
"""


@pytest.mark.parametrize(("statement", "line"), FAULTS)
def test_a_faulty_function_is_one_line_of_the_start(tmp_path, statement, line):
    """Also with a made-up problem, which is no reason for what these functions do, but for a TypeError."""
    (tmp_path / "mine.py").write_text(FUNCTION.format(statement))
    with pytest.raises(StudyError) as told:
        check_calls(trial_of("f", made_up="TypeError" not in line), tmp_path)
    assert str(told.value).startswith("components.x: mine.py:f: ")
    assert line in str(told.value)
    assert str(told.value).endswith("; to start without this call, `export REWARD_ABLATION_TRY_REWARDS=no`")
    assert "\n" not in str(told.value)
    if "process that calls" not in line:
        assert "called once before the first job with made-up completions" in str(told.value)


def test_an_error_that_the_jobs_may_not_meet_is_told_and_stops_nothing(tmp_path):
    requests = {}
    for name, (statement, _, made_up) in zip("abcde", DOUBTFUL, strict=True):
        (tmp_path / f"{name}.py").write_text(FUNCTION.format(statement))
        request = trial_of("f", made_up)["components.x"]
        requests[f"components.{name}"] = request._replace(function=f"{name}.py:f")
    for name, told, (_, line, _) in zip("abcde", check_calls(requests, tmp_path), DOUBTFUL, strict=True):
        assert line in told
        assert told.startswith(f"components.{name}: {name}.py:f: ")
        assert told.endswith("; the jobs may meet the same error")


def test_a_function_that_does_not_return_ends_in_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("def f(completions):\n    while True: pass\n")
    with pytest.raises(StudyError, match=r"^components\.x: mine\.py:f: the function has not returned within 1 seconds"):
        check_calls(trial_of("f"), tmp_path, patience=1)


def test_a_function_is_called_as_training_calls_it(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import json, os, threading\nfrom pathlib import Path\n"
        "async def f(completions, answer, *, key, trainer_state=None, log_extra=None, log_metric=None, **columns):\n"
        "    log_extra('length', [len(text) for text in completions])\n"
        "    log_metric('mean', 0.0)\n"
        "    state = [trainer_state.global_step, trainer_state.max_steps > 0, trainer_state.is_world_process_zero]\n"
        "    Path('SEEN').write_text(json.dumps([os.getpid(), key, state, sorted(columns)]))\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    return [None, *[1.0 for _ in completions[1:]]]\n"
    )
    monkeypatch.setenv("JUDGE_KEY", "value-of-the-key")
    assert check_calls(trial_of("f", key={"env": "JUDGE_KEY"}), tmp_path, patience=100) == []
    process, key, state, columns = json.loads((tmp_path / "SEEN").read_text())
    assert process != os.getpid()
    assert (key, state, columns) == ("value-of-the-key", [0, True, True], ["problem_id"])
    (tmp_path / "mine.py").write_text("def f(completions, *, key): raise ValueError(key)\n")
    with pytest.raises(StudyError) as told:
        check_calls(trial_of("f", key={"env": "JUDGE_KEY"}), tmp_path)
    assert "value-of-the-key" not in str(told.value)


@pytest.mark.parametrize(
    ("helper", "line"),
    [
        ("def half(:", "helper.py: line 1: not valid Python: invalid syntax"),
        ("x = '\0'", "not valid Python: "),
        (b"x = '\xff'", "helper.py: line 1: not valid Python: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"# coding: klingon\n", "helper.py: not valid Python: unknown encoding: klingon"),
        ("x = " + "1 + " * 50000 + "1", "not valid Python: RecursionError: "),
    ],
)
def test_a_helper_that_is_not_python_is_one_line_of_the_plan(tmp_path, config, helper, line):
    (tmp_path / "helper.py").write_bytes(helper if isinstance(helper, bytes) else helper.encode())
    (tmp_path / "mine.py").write_text("import helper\ndef f(completions): ...\n")
    config["components"]["format"] = {"function": "mine.py:f"}
    assert line in refusal(config, tmp_path)
