"""Imports of reward files in a process of their own, and planning where the text of a file says too little."""

import json
import os

import pytest

from configs import refusal
from reward_ablation.rewards.trial import Trial, made_up_completions
from reward_ablation.study.resolve import resolve
from reward_ablation.study.reward_import import RUN_CODE, Request, check_calls, check_imports
from reward_ablation.system.errors import StudyError

MINE = """
import os
from pathlib import Path
from reward_ablation.rewards.parameters import FilePath
Path(__file__).with_name("PROCESS").write_text(str(os.getpid()))
print("the file speaks")

def other(function):
    return lambda completions, answer, *, words: function(completions)

def make():
    def made(completions, answer, *, words: FilePath, limit: int = 3): ...
    return made

made = make()

def right(completions, *, words: FilePath, limit: int = 3): ...

@other
def wrong(completions, *, words: FilePath): ...
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


def test_an_argument_that_gets_a_column_for_its_default_is_told(tmp_path, config):
    (tmp_path / "mine.py").write_text("def f(completions, level='easy', split='x', answer=None): ...\n")
    function = {"function": "mine.py:f", "parameters": {"split": "y"}}
    config["components"]["x"] = function
    config["evaluation"]["metrics"] = {"y": function | {"range": [0, 1]}, "of_x": {"component": "x", "range": [0, 1]}}
    told = [line for line in resolve(config, "study.yaml", tmp_path).warnings if "not its default" in line]
    text = "gets the column of this name, not its default; if it is a parameter, set it, put * before it, or rename it"
    keys = ("components.x", "evaluation.metrics.y")
    assert told == [f"{key}: mine.py:f: the argument level {text}" for key in keys]


INSERTED = "sys.path.insert(0, 'src')\n"


@pytest.mark.parametrize(
    ("text", "file", "refused"),
    [
        (f"{INSERTED}import other_helper\n", "src/other_helper.py", True),
        (f"{INSERTED}import late_helper\n", "src/other_helper.py", True),  # imported by a helper
        ("from src import other_helper\n", "src/other_helper.py", False),
        ("sys.path.insert(0, 'site-packages')\nimport other_helper\n", "site-packages/other_helper.py", False),
        (f"{INSERTED}import importlib\nimportlib.import_module('other_' + 'helper')\n", "src/other_helper.py", False),
    ],
)
def test_a_helper_whose_code_does_not_count_is_refused(tmp_path, text, file, refused):
    """It is found where the digest does not look; modules whose names are made at run time never count."""
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("")
    (tmp_path / "late_helper.py").write_text("import other_helper\n")
    (tmp_path / "mine.py").write_text(f"import sys\n{text}def f(completions): ...\n")
    (tmp_path / "method.py").write_text(f"import sys\n{text}def f(scores, groups, weights, state): ...\n")
    for requests in (request_of("f"), {"arms.a.combine": Request("combination", "method.py:f")}):
        if not refused:
            check_imports(requests, tmp_path)
            continue
        [(key, request)] = requests.items()
        with pytest.raises(StudyError) as told:
            check_imports(requests, tmp_path)
        line = f"imports other_helper from {tmp_path / file}, where the runs' keys do not count its code; "
        assert str(told.value).startswith(f"{key}: {request.function}: {line}")


def test_the_first_file_that_ends_the_process_is_named(folder):
    (folder / "ending.py").write_text("import os\nos._exit(1)\ndef f(completions): ...\n")
    requests = {
        "components.first": Request("components", "mine.py:right", {"words": "words.txt"}),
        "components.second": Request("components", "ending.py:f", {}),
        "arms.a.combine": Request("combination", "mine.py:right"),
    }
    with pytest.raises(StudyError, match=r"^components\.second: ending\.py:f: ending\.py ends the process"):
        check_imports(requests, folder)


def test_an_import_that_says_something_else_stops_the_start(folder, monkeypatch):
    request = request_of("wrong", words="words.txt")
    with pytest.raises(StudyError, match="has other arguments than the text of the file says") as told:
        check_imports(request, folder)
    assert "columns: completions, answer (in the text: completions); marker of 'words': no" in str(told.value)
    assert RUN_CODE in str(told.value)
    monkeypatch.setenv(RUN_CODE, "yes")
    check_imports(request, folder)


def test_a_function_without_a_def_is_planned_after_a_word(folder, config, monkeypatch):
    config["components"]["mine"] = {"function": "mine.py:made", "parameters": {"words": "words.txt"}}
    config["arms"]["arms"]["a"]["weights"]["mine"] = 1
    assert refusal(config, folder) == (
        "components.mine: mine.py:made: its arguments are not in the text of the file: line 15 defines it "
        "without `def`; write them in the file, as in `def made(completions, ...)`, or trust the file and "
        f"`export {RUN_CODE}=yes`: planning then imports it, in a process of its own"
    )
    assert not (folder / "PROCESS").exists()
    monkeypatch.setenv(RUN_CODE, "yes")
    study = resolve(config, "study.yaml", folder)
    assert int((folder / "PROCESS").read_text()) != os.getpid()
    assert list(next(iter(study.runs.values())).arm_spec.components["mine"].contents) == ["words"]
    config["components"]["mine"]["parameters"]["limt"] = 1
    assert "unknown parameter 'limt'" in refusal(config, folder)


def trial_of(function, made_up=False, **parameters):
    """A request to call a function with four completions of one problem."""
    columns = {"completions": made_up_completions("42", 4), "problem_id": ["mine/7"] * 4, "answer": ["42"] * 4}
    return {"components.x": Request("components", f"mine.py:{function}", parameters, (), Trial(columns, made_up))}


FUNCTION = """import os, sys
class OutOfMemoryError(RuntimeError): pass
def f(completions, answer, log_extra):
    {}
"""


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("return undefined", "mine.py, line 4, `return undefined`: NameError: name 'undefined' is not defined"),
        ("return [1.0]", "the function returned 1 scores for 4 completions"),
        ("os._exit(3)", "the function ends the process that calls it, by exit status 3"),
        ("return log_extra('column')", "TypeError: "),
    ],
)
def test_a_faulty_function_is_one_line_of_the_start(tmp_path, statement, line):
    """Also with a made-up problem, which is no reason for what these functions do, but for a TypeError."""
    (tmp_path / "mine.py").write_text(FUNCTION.format(statement))
    with pytest.raises(StudyError, match=r"^components\.x: mine\.py:f: ") as told:
        check_calls(trial_of("f", made_up="TypeError" not in line), tmp_path)
    assert line in str(told.value)
    assert str(told.value).endswith("; to start without this call, `export REWARD_ABLATION_TRY_REWARDS=no`")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("statement", "made_up", "line"),
    [
        ("return [{'72': 1.0}[answer[0]]] * 4", True, "KeyError: '42'"),
        ("raise ConnectionRefusedError('the judge is not there')", False, "the judge is not there"),
        ("raise OutOfMemoryError('no memory left')", False, "py:f: no memory left (called once"),
    ],
)
def test_an_error_that_the_jobs_may_not_meet_is_told_and_stops_nothing(tmp_path, statement, made_up, line):
    (tmp_path / "mine.py").write_text(FUNCTION.format(statement))
    [told] = check_calls(trial_of("f", made_up), tmp_path)
    assert line in told
    assert told.startswith("components.x: mine.py:f: ")
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
        "    state = [trainer_state.global_step, trainer_state.is_world_process_zero]\n"
        "    Path('SEEN').write_text(json.dumps([os.getpid(), key, state, sorted(columns)]))\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    return [None, *[1.0 for _ in completions[1:]]]\n"
        "def g(completions, *, key): raise ValueError(key)\n"
    )
    monkeypatch.setenv("JUDGE_KEY", "value-of-the-key")
    assert check_calls(trial_of("f", key={"env": "JUDGE_KEY"}), tmp_path, patience=100) == []
    process, *seen = json.loads((tmp_path / "SEEN").read_text())
    assert process != os.getpid()
    assert seen == ["value-of-the-key", [0, True], ["problem_id"]]
    with pytest.raises(StudyError) as told:
        check_calls(trial_of("g", key={"env": "JUDGE_KEY"}), tmp_path)
    assert "value-of-the-key" not in str(told.value)


@pytest.mark.parametrize(
    ("helper", "line"),
    [
        ("def half(:", "helper.py: line 1: not valid Python: invalid syntax"),
        (b"x = '\xff'", "helper.py: line 1: not valid Python: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        ("x = " + "1 + " * 50000 + "1", "not valid Python: RecursionError: "),
    ],
)
def test_a_helper_that_is_not_python_is_one_line_of_the_plan(tmp_path, config, helper, line):
    (tmp_path / "helper.py").write_bytes(helper if isinstance(helper, bytes) else helper.encode())
    (tmp_path / "mine.py").write_text("import helper\ndef f(completions): ...\n")
    config["components"]["format"] = {"function": "mine.py:f"}
    assert line in refusal(config, tmp_path)
