"""From a name in the config to a function, or one line that says what is allowed."""

import subprocess
import sys

import pytest

from reward_ablation.rewards.load import check_component, load_component
from reward_ablation.system.errors import StudyError

from .components import EXAMPLE_PARAMETERS, FURTHER_COLUMNS

USER_FILE = '''
def brevity(completions, completion_ids, limit: int = 10, **columns):
    """Shorter is better. Knows nothing of an empty batch."""
    return [1.0 if len(ids) <= limit else min(map(len, completion_ids)) for ids in completion_ids]

def _helper(): ...
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "mine.py").write_text(USER_FILE)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "failing.py").write_text("\nLIMIT = {}['limit']\n")
    (tmp_path / "exiting.py").write_text("raise SystemExit('no')\n")
    (tmp_path / "lonely.py").write_text("import nobodys_helper\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "relative.py").write_text("from .helper import f\n")
    return tmp_path


def test_parameters_are_set_and_a_column_of_the_same_name_is_not_one(root):
    component = load_component("token_length", {"target": 40, "width": 20}, root)
    assert component(["x"], completion_ids=[[1] * 30], answer=["1"], width=[99]) == [0.5]
    assert load_component("constant", {}, root)(["x"], value=["a column"]) == [1.0]
    component = load_component("mine.py:brevity", {"limit": 2}, root)
    assert component(["x", "y"], completion_ids=[[1, 2], [1, 2, 3]]) == [1.0, 2.0]
    assert (component.__name__, component.__doc__[:7]) == ("brevity", "Shorter")


HINTED = """
import typing, typing_extensions
from collections.abc import Iterable

class Options(typing_extensions.TypedDict):
    a: float

class Unknown(typing.TypedDict):  # to pydantic, before Python 3.12
    a: float

def found(completions, *, value{hint}):
    return [float({text!r} == repr(value)) for _ in completions]
"""


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (": Iterable[float]", [1, 2], "[1.0, 2.0]"),
        (": Iterable[str]", "ab", "'ab'"),
        (": float", 1, "1.0"),  # a run's spec has 1 for 1.0
        ("=0.5", 1, "1.0"),
        ("", 1, "1"),
        (": list[Options]", [{"b": 2, "a": 1}], "[{'a': 1.0, 'b': 2}]"),
        (": Unknown", {"a": 1.5, "b": 2}, "{'a': 1.5, 'b': 2}"),
        (': "number of words"', 4, "4"),
    ],
)
def test_a_function_gets_all_of_a_parameter_at_each_call(root, hint, value, text):
    """Also where pydantic makes an iterator, drops keys, or cannot read the hint."""
    (root / "hinted.py").write_text(HINTED.replace("{hint}", hint).replace("{text!r}", repr(text)))
    component = load_component("hinted.py:found", {"value": value}, root)
    assert [component(["x"]) for _ in range(2)] == [[1], [1]]


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        ("corectness", {}, "unknown function 'corectness'; functions here: answer_format, boxed_answer"),
        ("mine.py:", {}, "is not of the form path/to/file.py:function"),
        ("absent.py:f", {}, "there is no file absent.py"),
        ("mine.py:long", {}, "no function 'long'; functions in the file: brevity"),
        ("broken.py:f", {}, "broken.py does not load: SyntaxError"),
        ("failing.py:f", {}, "failing.py, line 2, `LIMIT = {}['limit']`: KeyError: 'limit'"),
        ("exiting.py:f", {}, "exiting.py, line 1, `raise SystemExit('no')`: SystemExit: no"),
        ("lonely.py:f", {}, "ModuleNotFoundError: No module named 'nobodys_helper'; imports are looked for in "),
        ("package/relative.py:f", {}, "write `import helper` for a file helper.py beside it"),
        ("constant", {"valeu": 1}, "unknown parameter 'valeu'; parameters of constant: value"),
        ("token_length", {"target": 40}, "parameter 'width' is missing; parameters of token_length: target, width"),
        ("mine.py:brevity", {"columns": {}}, "unknown parameter 'columns'; parameters of mine.py:brevity: limit"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(root, function, parameters, message):
    with pytest.raises(StudyError) as refusal:
        load_component(function, parameters, root)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_checking_a_config_imports_nothing_heavy(root):
    script = (
        "import sys; from pathlib import Path\n"
        "from reward_ablation.rewards.load import component_names, load_component\n"
        f"parameters = {EXAMPLE_PARAMETERS}\n"
        "for name in component_names():\n"
        f"    load_component(name, parameters.get(name, {{}}), Path('.'), further={[*FURTHER_COLUMNS]})\n"
        "print([m for m in ('torch', 'transformers', 'sympy', 'math_verify', 'pandas', 'numpy') if m in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


BESIDE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING
import string  # the standard library's, though a file string.py lies beside
from my_helper_of_the_study import half

if TYPE_CHECKING:
    from nowhere import Judge

@dataclass
class Limit:
    tokens: int

def f(completions, completion_ids, *, limit: int = 2, judge: Judge | None = None, **columns):
    from my_late_helper_beside import third
    assert string.digits
    return [third(half(len(ids))) * Limit(limit).tokens for ids in completion_ids]
"""


def test_a_users_file_imports_from_its_own_folder_last(root):
    """Also while the function scores, and never in place of an installed module."""
    folder = root / "my_rewards"
    folder.mkdir()
    (folder / "beside.py").write_text(BESIDE)
    (folder / "string.py").write_text("")
    (folder / "my_late_helper_beside.py").write_text("def third(length):\n    return length / 3\n")
    (root / "my_helper_of_the_study.py").write_text("def half(length):\n    return length / 2\n")  # wherever we started
    before = list(sys.path)
    component = load_component("my_rewards/beside.py:f", {"limit": 6}, root)
    component.__name__ = "mine"  # TRL names metrics by it; one function may serve two components
    assert load_component("my_rewards/beside.py:f", {}, root).__name__ == "f"
    assert component(["x"], completion_ids=[[1, 2]]) == [2.0]
    assert sys.path == before


JUDGE = """
def judge(completions, *, api_key: str, headers: dict[str, str] | None = None, retries: int = 1, **columns):
    if completions[0] == "coded":
        raise ValueError(f"401 for {api_key}, {api_key.encode().hex()}")
    if completions[0] == "wrong":
        return [{"x" * 40: api_key}]  # a score that is shown in part
    return [float(len(api_key)), float(len((headers or {"x": ""})["x"]))]

def named_env(completions, *, env="dev", **columns):
    return [float(env == "staging")]
"""
KEY = {"api_key": {"env": "JUDGE_API_KEY"}}
SECRET = "very\nprivate, and long: 0123456789012345678901234567890123456789"


@pytest.fixture
def judge(root):
    (root / "judge.py").write_text(JUDGE)
    return root


def test_a_parameter_reads_a_secret_from_the_environment(judge):
    parameters = {**KEY, "headers": {"x": {"env": "OTHER"}}}
    component = load_component("judge.py:judge", parameters, judge, "judge", {"JUDGE_API_KEY": SECRET, "OTHER": "abc"})
    assert component(["x", "y"]) == [len(SECRET), 3.0]
    check_component("judge.py:judge", parameters, judge, {})  # names and columns are checked without the variables
    check_component("soft_overlong", {"max_completion_len": {"env": "OTHER"}, "soft_punish_cache": 8}, judge, {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"api_key": {"env": "NOT_SET"}}, "judge.py:judge: the environment variable NOT_SET is not set"),
        ({**KEY, "headers": {"x": {"env": "NOT_SET"}, "y": {"env": "EMPTY"}}}, "variables NOT_SET, EMPTY are not set"),
        ({"api_key": {"env": 3}}, "env: give the name of an environment variable, such as JUDGE_API_KEY"),
        # what a type hint excludes
        ({**KEY, "retries": {"env": "JUDGE_API_KEY"}}, "retries: Input should be a valid integer, not {'env': 'JUDGE"),
    ],
)
def test_a_variable_that_cannot_be_read_is_one_line_without_its_value(judge, parameters, message):
    with pytest.raises(StudyError) as refusal:
        load_component("judge.py:judge", parameters, judge, "judge", {"JUDGE_API_KEY": SECRET, "EMPTY": ""})
    assert message in str(refusal.value)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("completion", "told"),
    [("coded", "401 for {env: JUDGE_API_KEY}, {env: JUDGE_API_KEY}"), ("wrong", "xx': '{env: JUDGE...")],
)
def test_an_error_never_shows_a_secret(judge, capsys, completion, told):
    component = load_component("judge.py:judge", KEY, judge, "judge", {"JUDGE_API_KEY": SECRET})
    with pytest.raises(StudyError) as error:
        component([completion])
    assert told in str(error.value)
    shown = str(error.value) + capsys.readouterr().err
    assert "private" not in shown
    assert b"private".hex() not in shown


def test_a_parameter_may_be_called_env(judge):
    """Only the value of a parameter can be `{env: NAME}`, not all parameters together."""
    environment = {"STAGE": "staging", "staging": "production"}
    for value in ("staging", {"env": "STAGE"}):
        component = load_component("judge.py:named_env", {"env": value}, judge, "judge", environment)
        assert component(["x"]) == [1.0]


def test_parameters_that_do_not_go_together_are_told_without_a_secret(root):
    parameters = {"model": "m", "template": {"env": "FILE"}, "endpoint": "http://h/v1"}
    with pytest.raises(StudyError, match=r"^components: judge: template: .*/\{env: FILE\}: No such file"):
        check_component("judge", parameters, root, {"FILE": "hidden.txt"})
