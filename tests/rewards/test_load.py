"""From a name in the config to a function, or one line that says what is allowed."""

import subprocess
import sys

import pytest

from reward_ablation.rewards.load import component_names, load_component
from reward_ablation.study.errors import StudyError

from .components import EXAMPLE_PARAMETERS

USER_FILE = '''
def brevity(completions, completion_ids, limit: int = 10, **columns):
    """Shorter is better."""
    return [1.0 if len(ids) <= limit else 0.0 for ids in completion_ids]

def longest(completions, completion_ids, **columns):
    """Knows nothing of an empty batch."""
    return [max(len(ids) for ids in completion_ids)] * len(completions)

def _helper():
    pass
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "mine.py").write_text(USER_FILE)
    (tmp_path / "broken.py").write_text("def f(:\n")
    return tmp_path


def test_every_component_that_comes_along_loads_by_its_name(root):
    for name in component_names():
        assert load_component(name, EXAMPLE_PARAMETERS.get(name, {}), root).__name__ == name


def test_parameters_are_set_and_a_column_of_the_same_name_is_not_one(root):
    component = load_component("token_length", {"target": 40, "width": 20}, root)
    assert component(["x"], completion_ids=[[1] * 30], answer=["1"], width=[99]) == [0.5]
    assert load_component("constant", {}, root)(["x"], value=["a column"]) == [1.0]


def test_a_users_file_is_loaded_from_its_path(root):
    component = load_component("mine.py:brevity", {"limit": 2}, root)
    assert component(["x", "y"], completion_ids=[[1, 2], [1, 2, 3]]) == [1.0, 0.0]
    assert (component.__name__, component.__doc__) == ("brevity", "Shorter is better.")
    assert load_component("mine.py:longest", {}, root)(["x"], completion_ids=[[1, 2]]) == [2]


def test_the_name_of_one_component_is_not_the_name_of_another(root):
    """One function may serve two components; TRL names metrics by it."""
    first, second = (load_component("constant", {"value": value}, root) for value in (0, 1))
    first.__name__ = "zero"
    assert second.__name__ == "constant"


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        ("corectness", {}, "unknown function 'corectness'; functions here: answer_format, boxed_answer"),
        ("__init__", {}, "unknown function"),
        ("mine.py", {}, "is no path/to/file.py:function"),
        ("mine.py:", {}, "is no path/to/file.py:function"),
        ("absent.py:f", {}, "there is no file absent.py"),
        ("mine.py:long", {}, "no function 'long'; functions there: brevity, longest"),
        ("broken.py:f", {}, "broken.py does not load: SyntaxError"),
        ("constant", {"valeu": 1}, "unknown parameter 'valeu'; parameters of constant: value"),
        (
            "correctness",
            {"answer": "x"},
            "unknown parameter 'answer'; parameters of correctness: answer_format",
        ),  # a column
        ("token_length", {"target": 40}, "parameter 'width' is missing; parameters of token_length: target, width"),
        ("token_length", {"target": 40, "width": 0}, "width: Input should be greater than 0, not 0"),
        (
            "soft_overlong",
            {"max_completion_len": 256, "soft_punish_cache": 512},
            "components: soft_overlong: soft_punish_cache: 512 is above max_completion_len, which is 256",
        ),
        ("correctness", {"answer_format": "boxd"}, "answer_format: Input should be 'boxed'"),
        ("mine.py:brevity", {"limit": "ten"}, "limit: Input should be a valid integer, not 'ten'"),
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
        "    load_component(name, parameters.get(name, {}), Path('.'))\n"
        "print([m for m in ('torch', 'transformers', 'sympy', 'math_verify', 'pandas', 'numpy') if m in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


def test_a_users_file_imports_from_the_folder_where_the_study_is(root):
    """Wherever this process was started: the jobs are started there."""
    (root / "my_helper_of_lengths.py").write_text("def half(length):\n    return length / 2\n")
    (root / "importing.py").write_text(
        "from my_helper_of_lengths import half\n\n"
        "def f(completions, completion_ids, **columns):\n    return [half(len(ids)) for ids in completion_ids]\n"
    )
    before = list(sys.path)
    assert load_component("importing.py:f", {}, root)(["x"], completion_ids=[[1, 2]]) == [1.0]
    assert sys.path == before
