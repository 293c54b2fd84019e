"""From the method in a config to a call: names, users' files, arguments of methods, and checks of results."""

import subprocess
import sys

import numpy as np
import pytest

from combination.batches import combine, made_up
from reward_ablation.combination.load import check, load_method
from reward_ablation.system.errors import StudyError

NAMES = ("correctness", "format", "length")


@pytest.fixture
def user_method(tmp_path):
    """A function that writes a user's method with the given body, and combines by it."""

    def written(body: str, arguments: str = "", weights=(1.0, 1.0, 1.0), parameters=None, **context):
        lines = "\n    ".join(body.splitlines())
        text = f"import numpy as np\n\ndef mine(scores, groups, weights, state{arguments}):\n    {lines}\n"
        (tmp_path / "mine.py").write_text(text)
        load_method.cache_clear()
        scores, groups = made_up()
        context = {"names": NAMES, **context}
        return combine(
            "mine.py:mine", parameters or {}, scores, groups, np.array(weights), {}, root=tmp_path, **context
        )

    return written


def test_a_users_method_may_return_a_pair_more_or_advantages_alone(user_method):
    scores, _ = made_up()
    pair = user_method("return scores * weights, {'n': state.get('n', 0) + 1}", weights=[1, 2, 3])
    np.testing.assert_array_equal(pair.advantages, scores * [1, 2, 3])
    assert (pair.state, pair.weights, pair.conflicts) == ({"n": 1}, None, None)
    triple = user_method("return scores, {}, [1, 2, 3]")
    assert triple.weights.tolist() == [1, 2, 3]
    whole = user_method("return scores, {}, None, 0.25")
    assert whole.conflicts == 0.25
    alone = user_method("return scores.sum(axis=1)", weights=[1.0, 0.0, 2.0])
    np.testing.assert_allclose(alone.advantages, scores[:, [0, 2]].sum(axis=1)[:, None] / 2 * [1, 0, 1])


def test_a_method_gets_the_context_that_it_names(user_method):
    body = "return scores, {'given': [str(gram is None), step, list(names), bounds.tolist(), int(tokens[1]), limit]}"
    context = {"step": 7, "bounds": np.array([[0, 1], [0, 1], [0, 4]]), "tokens": np.arange(48)}
    arguments = ", *, gram, step, names, bounds, tokens, limit=3"
    found = user_method(body, arguments, [1.0, 0.0, -2.0], {"limit": 5}, **context)
    assert found.state["given"] == ["True", 7, ["correctness", "length"], [[0, 1], [-4, 0]], 1, 5]


def test_a_method_sees_a_component_without_weight_where_a_parameter_names_it(user_method):
    body = "return scores * weights, {'weights': weights.tolist(), 'names': list(names)}"
    parameters = {"base": {"of": [["length"], {"x": 3}], "n": 5}}
    found = user_method(body, ", *, names, base=''", [1.0, 0.0, 0.0], parameters)
    assert found.state == {"weights": [1.0, 0.0], "names": ["correctness", "length"]}
    assert found.advantages.shape == (48, 3)


def test_what_a_method_does_to_its_arguments_stays_there(tmp_path):
    spoiling = "scores[:] = 0; weights[:] = 0; groups[:] = 0; state['a'][0] = 0; limits.append(0)"
    text = f"def mine(scores, groups, weights, state, *, limits):\n    {spoiling}\n    return scores, state\n"
    (tmp_path / "spoil.py").write_text(text)
    state, parameters, arrays = {"a": [1]}, {"limits": [1]}, (*made_up(), np.ones(3))
    assert combine("spoil.py:mine", parameters, *arrays, state, names=NAMES, root=tmp_path).state == {"a": [0]}
    assert (state, parameters) == ({"a": [1]}, {"limits": [1]})
    assert all(array.any() for array in arrays)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return scores[:4], {}", r"returned advantages of shape \(4, 3\); return shape \(48, 3\)$"),
        ("return scores / 0, {}", r"returned advantages that are not finite or beyond 1e\+150; return 0 where"),
        ("return 'much', {}", "returned advantages that are not numbers"),
        ("return scores, {}, 1, 2, 3", "returned 5 values; return "),
        ("state['x'] = state\nreturn scores, state", r"state is not JSON \(Circular reference detected\)"),
        ("return scores, [1]", "state is not a dict"),
        ("return scores, {'x': [{None: 0}]}", "the method returned a state with the key None; "),
        ("return scores * 1j", "returned complex or masked numbers, or gradients; return an array of real numbers$"),
        ("return np.ma.masked_less(scores, 1)", "the method returned complex or masked numbers"),
        ("import torch\nreturn torch.tensor(scores, requires_grad=True)", "complex or masked numbers, or gradients"),
        ("raise SystemExit", r"mine.py, line 4, `raise SystemExit`: SystemExit$"),
        ("import os; os.chdir('/')\nreturn scores", r"the method changes os.getcwd\(\) from .* to /, with which the"),
        ("return scores, {}, [1]", r"returned weights of shape \(1,\); return shape \(3,\)$"),
        ("return 1 / 0", r"mine.py, line 4, `return 1 / 0`: ZeroDivisionError: division by zero$"),
        (
            "from reward_ablation.system import errors\nraise errors.StudyError('mine.py:mine: weak')",
            "^mine.py:mine: weak$",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_users_mistake_is_one_line_with_the_method(user_method, tmp_path, monkeypatch, body, message):
    monkeypatch.chdir(tmp_path)  # a method may change it
    with pytest.raises(StudyError, match=message) as caught:
        user_method(body)
    assert "mine.py:mine" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_whole_numbers_have_the_type_that_a_method_declares_and_it_imports_from_the_studys_folder(
    user_method, tmp_path
):
    """A run's spec has 1 for 1.0."""
    (tmp_path / "helping.py").write_text("name = '__name__'\n")
    body = "import helping\nreturn scores, {'types': [getattr(type(a), helping.name) for a in (*targets, sharp, free)]}"
    arguments = ", *, targets: list[float], sharp=0.5, free"
    found = user_method(body, arguments, parameters={"targets": [1, 2], "sharp": 1, "free": 1})
    assert found.state["types"] == ["float", "float", "float", "int"]


def test_rescaling_needs_weights(user_method):
    assert user_method("return scores, {}, [4, 4, 4]").weights.tolist() == [4, 4, 4]  # takes no Gram matrix
    found = user_method("return scores, {}, [4, 4, 4]", parameters={"rescale": True})
    assert found.weights.tolist() == [1, 1, 1]
    np.testing.assert_allclose(found.advantages, made_up()[0] / 4)
    user_method("return scores, {}", ", *, gram")  # nothing to rescale by
    with pytest.raises(StudyError, match=r"^rescale: mine.py:mine reports no weights to rescale by; remove"):
        user_method("return scores, {}", parameters={"rescale": True})


def test_scores_and_weights_that_are_not_numbers_are_refused():
    scores, groups = made_up()
    spoiled = scores.copy()
    spoiled[3, 1] = -1e60
    with pytest.raises(StudyError, match=r"^gdpo: a score of format is infinite or beyond 1e"):
        combine("gdpo", {}, spoiled, groups, np.ones(3), {}, names=NAMES)
    with pytest.raises(StudyError, match=r"^gdpo: a weight is not a number"):
        combine("gdpo", {}, scores, groups, np.array([1, np.nan, 1]), {}, names=NAMES)
    with pytest.raises(StudyError, match=r"^laconic: the method needs the lengths of the completions"):
        combine("laconic", {}, scores, groups, np.ones(3), {}, names=NAMES)
    found = combine("weighted_sum", {}, scores, groups, np.zeros(3), {"kept": 1}, names=NAMES)  # no weight at all
    assert (found.advantages == 0).all()
    assert found.state == {"kept": 1}


@pytest.mark.parametrize(
    ("text", "method", "parameters", "message"),
    [
        ("", "_common", {}, "^method: unknown method"),
        ("", "mine.py:other", {}, "no function 'other'; functions in the file: none$"),
        ("", "mine.py", {}, "is not of the form path/to/file.py:function or package.module:function$"),
        ("", "other.py:mine", {}, "there is no file other.py in "),
        ("def mine(:", "mine.py:mine", {}, "mine.py does not load: SyntaxError"),
        ("def mine(a, b, c, d, e=1): ...", "mine.py:mine", {}, "takes a, b, c, d, e by position"),
        ("def mine(a, b, c, d, *, x): ...", "mine.py:mine", {}, "^x: missing parameter of the method mine.py:mine"),
        ("def mine(a, b, c, d, *, x=1): ...", "mine.py:mine", {"y": 1}, "^y: unknown parameter.*: x, rescale$"),
        ("def mine(a, b, c, d, **e): ...", "mine.py:mine", {"state": 1}, "^state: unknown parameter"),
        ("def mine(a, b, c, d): ...", "mine.py:mine", {"rescale": 1.5}, "^rescale: 1.5 is neither true nor false"),
        ("def mine(a, b, c, d, **e):\n    raise SystemExit", "mine.py:mine", {"x": 2}, None),
    ],
)
def test_planning_reads_a_users_file_and_does_not_run_it(tmp_path, text, method, parameters, message):
    (tmp_path / "mine.py").write_text(text)
    if message is None:
        check(method, parameters, NAMES, [1.0, 1.0, 1.0], root=tmp_path)
        return
    with pytest.raises(StudyError, match=message):
        check(method, parameters, NAMES, [1.0, 1.0, 1.0], root=tmp_path)


def test_planning_calls_a_method_with_the_ranges_of_the_components():
    bounds = np.array([[0, 1], [-2, 0], [np.nan, np.nan]])
    with pytest.raises(StudyError, match=r"^ranges: the range of 'length' is not known"):
        check("sa_mrpo", {}, NAMES, [1.0, 1.0, 1.0], bounds)
    check("sa_mrpo", {}, NAMES, [1.0, -1.0, 0.0], bounds)
    with pytest.raises(StudyError, match=r"^at_least.format: 0.5 is above the highest score, 0;"):
        check("lagrangian", {"at_least": {"format": 0.5}}, NAMES, [1.0, 0.0, 0.0], bounds)


def test_planning_imports_no_scipy_unless_a_method_needs_it():
    code = (
        "import sys\nfrom reward_ablation.combination.load import arguments_of_method, check\n"
        "assert 'gram' in arguments_of_method('upgrad').context\ncheck('gdpo', {}, 'ab', [1, 1])\n"
        "assert not {'scipy', 'torch', 'pandas', 'snakemake'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
