"""Components named as `package.module:function`: read without an import, keyed by content, imported by a start."""

import pytest

from reward_ablation.rewards.arguments import arguments_of
from reward_ablation.rewards.load import function_in_file
from reward_ablation.rewards.parameters import marks_of
from reward_ablation.rewards.trial import Trial, made_up_completions
from reward_ablation.spec.parts import CombineSpec, ComponentSpec
from reward_ablation.study import code_digest
from reward_ablation.study.endpoint_requests import asks
from reward_ablation.study.reward_files import function_digest
from reward_ablation.study.reward_import import Request, check_calls, check_imports, planned_arguments, planned_marks
from reward_ablation.study.specs_of_config import check_unchanged
from reward_ablation.system.errors import StudyError

#: A package that must not be imported, whose `__init__.py` names the functions for type checkers only.
LAZY = {
    "__init__.py": "from typing import TYPE_CHECKING\nopen('MARKER', 'w')\nif TYPE_CHECKING:\n"
    "    from .inner import judge as verdict, slow\n    from .inner import nobody\n",
    "inner.py": "from .helper import one\nfrom reward_ablation.rewards.parameters import FilePath\n"
    "def judge(completions, *, words: FilePath, limit: int = 3): return [one]\nasync def slow(completions): ...\n"
    "made = (lambda: judge)()\n",
    "helper.py": "one = 1.0\n",
    "other.py": "two = 2.0\n",
}


def written(folder, files=LAZY, **edits):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text + edits.get(name.removesuffix(".py"), ""))
    return folder


@pytest.mark.parametrize("place", ["study", "installed"])
def test_planning_follows_a_package_without_importing_it(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "installed")
    written(tmp_path / place / "lazy_one")
    root = tmp_path / "study"
    arguments = planned_arguments("lazy_one:verdict", {"words": "w", "limit": 1}, root)
    assert (arguments.parameters, arguments.required) == (("words", "limit"), ("words",))
    assert list(planned_marks("lazy_one:verdict", root)) == ["words"]  # the marker's name is in another file
    assert (asks("lazy_one:slow", root), asks("lazy_one.inner:judge", root)) == (True, False)
    assert function_digest("lazy_one:verdict", root)
    assert not (tmp_path / "MARKER").exists()


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("reward_ablation.rewards.components.constant:constant", "by its function alone"),
        ("nobodys_package.rewards:f", "no Python file of the module nobodys_package.rewards in "),
        ("lazy_two.inner.py:judge", "there is no file lazy_two.inner.py in "),
        ("lazy_two:judg", "no function 'judg' in the text of "),
        ("lazy_two.inner:made", "line 5 defines it without `def`; check the name, or name the module that defines"),
        ("trl.rewards:acuracy_reward", "names like it: accuracy_reward"),
    ],
)
def test_what_is_no_function_of_a_module_is_one_line_of_the_plan(tmp_path, monkeypatch, function, line):
    monkeypatch.syspath_prepend(tmp_path / "installed")
    written(tmp_path / "study" / "lazy_two")
    with pytest.raises(StudyError) as told:
        planned_arguments(function, {}, tmp_path / "study")
    assert line in str(told.value)
    assert "\n" not in str(told.value)
    assert str(told.value).startswith(f"components: {function}: ") or repr(function) in str(told.value)


@pytest.mark.parametrize(
    ("edited", "own", "installed"), [("helper", True, True), ("__init__", True, True), ("other", False, True)]
)
def test_a_module_counts_by_its_content_wherever_it_is(tmp_path, monkeypatch, edited, own, installed):
    """A module in the study's folder counts with what it imports, an installed one with its whole package."""
    digests = []
    for version, edits in (("one", {}), ("two", {}), ("three", {edited: "edited = 1\n"})):
        written(tmp_path / version / "lazy_three", **edits)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / version)
            elsewhere = function_digest("lazy_three.inner:judge", tmp_path)
        digests.append((function_digest("lazy_three.inner:judge", tmp_path / version), elsewhere))
    assert digests[0] == digests[1]
    assert [before != after for before, after in zip(digests[0], digests[2], strict=True)] == [own, installed]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (CombineSpec, {"method": "own_five.inner:f"}),
        (ComponentSpec, {"function": "own_five.inner:f", "placement": "all_tokens"}),
    ],
)
def test_a_module_that_has_changed_since_the_start_is_refused(tmp_path, kind, keys):
    """By a job, and by the process that made the spec, which has read the old text."""
    written(tmp_path / "own_five", {"inner.py": "def f(completions): return [1.0]\n"})  # without an `__init__.py`
    part = kind(**keys, parameters={}, code=function_digest("own_five.inner:f", tmp_path))
    check_unchanged(part, {}, tmp_path)
    (tmp_path / "own_five" / "inner.py").write_text("def f(completions): return [2.0]\n")
    for caches in ((), (code_digest.content, code_digest.source)):
        for cached in caches:
            cached.cache_clear()
        with pytest.raises(StudyError, match=r"^own_five\.inner: .* has changed since the workflow was started"):
            check_unchanged(part, {}, tmp_path)


def test_another_module_of_the_same_name_is_not_imported_instead(tmp_path):
    for place in ("first", "second"):
        written(tmp_path / place, {"twice_six.py": "def f(completions): return [1.0]\n"})
    assert function_in_file("twice_six:f", tmp_path / "first")([]) == [1.0]
    with pytest.raises(StudyError, match=r"^components: twice_six:f: the runs' keys have the code of .*second"):
        function_in_file("twice_six:f", tmp_path / "second")


def trial_of(function, chat=True):
    texts = made_up_completions("42", 5)
    completions = [[{"role": "assistant", "content": text}] for text in texts] if chat else texts
    columns = {"completions": completions, "problem_id": ["mine/7"] * 5, "solution": ["$42$"] * 5}
    return {"components.x": Request("components", function, {}, (), Trial(columns, made_up=False))}


def test_a_start_calls_the_rewards_of_trl(tmp_path):
    """accuracy_reward reads conversations only."""
    function = "trl.rewards:accuracy_reward"
    check_imports({"components.x": Request("components", function, {})}, tmp_path)
    assert check_calls(trial_of(function), tmp_path) == []
    with pytest.raises(StudyError, match=rf"^components\.x: {function}: .*accuracy_rewards\.py, line "):
        check_calls(trial_of(function, chat=False), tmp_path)


def test_the_text_of_trl_says_what_its_import_says(tmp_path):
    function = function_in_file("trl.rewards:reasoning_accuracy_reward", tmp_path)
    assert planned_arguments("trl.rewards:reasoning_accuracy_reward", {}, tmp_path) == arguments_of("x", function, {})
    assert marks_of(function) == {}
