"""A reward function is called as TRL calls it, and its scores are checked before training uses them."""

import copy
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import TrainerState

from reward_ablation.rewards.load import check_component, load_component
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import may_pass

#: What TRL gives for a batch of two completions.
BATCH = {
    "prompts": ["What is 6 * 7?"] * 2,
    "completions": ["It is 42.", "It is 41."],
    "completion_ids": [[1, 2, 3], [1, 2]],
    "problem_id": ["train-3", "train-5"],
    "question": ["What is 6 * 7?"] * 2,
    "answer": ["42"] * 2,
    "trainer_state": SimpleNamespace(global_step=6),
    "log_extra": lambda column, values: None,
    "log_metric": lambda name, value: None,
}
WHERE = r"^components\.mine: at step 7, "


@pytest.fixture
def made(tmp_path):
    """Load a component whose function `f` has these lines, in the study's file mine.py."""

    def made(*lines, signature="completions, **columns", parameters=None, before="", further=()):
        (tmp_path / "mine.py").write_text(
            f"{before}\ndef f({signature}):\n" + "".join(f"    {line}\n" for line in lines)
        )
        return load_component("mine.py:f", parameters or {}, tmp_path, "mine", further=further)

    return made


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("completion_ids, **kwargs", "[3 * len(ids) for ids in completion_ids]"),
        ("*, completions, answer, **kwargs", "[len(text) for text in completions]"),  # after *, without a default
        ("completions, log_extra=None, **kwargs", "[9 * bool(log_extra)] * 2"),  # as trl.rewards has it
        ("completions, *, trainer_state=None, **kwargs", "[trainer_state.global_step + 3] * len(completions)"),
        ("*args, **kwargs", "[len(text) for text in kwargs['completions']]"),
        ("completions, answer=None, *, weight: float = 1.0", "[weight * len(text) for text in completions if answer]"),
        ("completions, *, level=9, **kwargs", "[level if 'level' not in kwargs else 0] * len(completions)"),
    ],
)
def test_functions_get_what_they_ask_for_by_keyword(made, signature, body):
    second = 6.0 if "ids" in body else 9.0
    assert made(f"return {body}", signature=signature)(**BATCH, level=[1, 2]) == [9.0, second]


@pytest.mark.parametrize(
    ("signature", "parameters", "message"),
    [
        ("completions, ground_truth, **kwargs", {}, "mine.py:f: asks for the column 'ground_truth', which the data does"
         " not have; columns: prompts, completions, completion_ids, trainer_state, log_extra, log_metric, problem_id,"),
        ("completions, limit", {"limit": 3}, r"the column 'limit', .*; a parameter has a default or stands after \*"),
        ("completions, /, **kwargs", {}, "takes 'completions' by its position; reward functions are called by keyword"),
        ("completions, *, limit", {}, "parameter 'limit' is missing; parameters of mine.py:f: limit"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_told_when_the_config_is_read(tmp_path, signature, parameters, message):
    (tmp_path / "mine.py").write_text(f"def f({signature}):\n    return []\n")
    with pytest.raises(StudyError, match=message):
        check_component("mine.py:f", parameters, tmp_path)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("[1.0, float('nan')]", WHERE + r"problem train-5: the score is nan; a score is a finite number, or None"),
        ("[1.0, 1e39]", WHERE + r"problem train-5: the score is 1e\+39; "),  # infinity in float32
        ("['good', 1.0]", WHERE + r"problem train-3: the score is 'good', which is not a number"),
        ("[1.0]", WHERE + r"problems train-3, train-5: the function returned 1 scores for 2 completions; return one"),
        ("None", r"^components\.mine: at step 7: the function returned None; return a list of scores"),
    ],
)
def test_scores_that_cannot_be_used_name_component_step_and_problem(made, output, message):
    with pytest.raises(StudyError, match=message) as refusal:
        made(f"return {output}")(**BATCH)
    assert "\n" not in str(refusal.value)
    with pytest.raises(StudyError, match=r"problems a, b, c and 2 more: the function returned 1 scores for 5"):
        made("return [1.0]")(completions=["x"] * 5, problem_id=[*"abcde"])


def test_what_trl_takes_as_scores_is_taken(made):
    for output in ([None, True], np.array([0.5, 1.0]), torch.tensor([0.5, 1.0]), (score for score in (0.5, 1.0))):
        component = made("return scores", signature="completions, *, scores, **columns", parameters={"scores": output})
        assert component(**BATCH) == ([None, 1.0] if isinstance(output, list) else [0.5, 1.0])


@pytest.mark.parametrize(
    ("statement", "passing", "told"),
    [
        ("raise ValueError('two' + chr(10) + 'lines' + chr(27))", False, "ValueError: two lines\\x1b"),
        ("assert text == gold", False, "`assert text == gold`: AssertionError"),
        # the network's error, as libraries wrap it
        ("raise RuntimeError('no judge') from TimeoutError('slow')", True, "RuntimeError: no judge"),
        ("import sys; sys.exit()", False, "SystemExit"),
    ],
)
def test_an_error_in_a_reward_shows_the_users_own_line(made, tmp_path, monkeypatch, capsys, statement, passing, told):
    monkeypatch.chdir(tmp_path)
    component = made(
        "return [score(text, '42') for text in completions]", before=f"def score(text, gold):\n    {statement}"
    )
    with pytest.raises(StudyError) as error:
        component(**BATCH)
    assert may_pass(error.value) == passing
    text = str(error.value)
    assert text.startswith("components.mine: mine.py, line 2, `")
    assert text.endswith(f"{told} (at step 7, problems train-3, train-5)")
    assert "\n" not in text
    log = capsys.readouterr().err
    assert "in score" in log  # the frames of the file, and none of ours
    assert "reward_ablation" not in log
    assert "\x1b" not in log


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), torch.OutOfMemoryError("full")])
def test_an_error_of_storage_or_of_the_gpu_stays_what_it_is(made, error):
    """Training handles these errors itself."""
    component = made("raise error", signature="completions, *, error", parameters={"error": error})
    with pytest.raises(type(error)):
        component(**BATCH)


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("torch.set_grad_enabled(False)", r"torch\.is_grad_enabled\(\) from True to False"),
        ("torch.set_default_dtype(torch.float64)", r"torch\.get_default_dtype\(\) from \S+ to torch\.float64"),
        ("os.chdir('/')", r"os\.getcwd\(\) from \S+ to /"),
    ],
)
def test_a_reward_that_changes_its_process_is_named(made, tmp_path, monkeypatch, statement, call):
    monkeypatch.chdir(tmp_path)
    component = made(statement, "return [1.0, 1.0]", before="import os, torch")
    (tmp_path / "own.py").write_text(f"import os, torch\n{statement}\ndef f(completions): ...\n")
    of_import = rf"^components: own\.py:f: the import of own\.py changes {call}, with which "
    loads = {WHERE + rf"problems train-3, train-5: the function changes {call}, ": lambda: component(**BATCH)}
    loads[of_import] = lambda: load_component("own.py:f", {}, tmp_path)
    for message, load in loads.items():
        with pytest.raises(StudyError, match=message):
            load()
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        os.chdir(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "completions[0][0]['content'] = ''",
        "tests[0]['cases'][0]['in'].append(0)",
        "options['deep']['list'].append(0)",
        "trainer_state.log_history[0]['nested'].append(9)",
        "trainer_state.global_step = 9",
    ],
)
def test_what_a_reward_changes_in_its_arguments_reaches_nothing_else(made, statement):
    batch = {
        **{name: BATCH[name] for name in ("completion_ids", "problem_id", "answer")},
        "completions": [[{"role": "assistant", "content": text}] for text in BATCH["completions"]],
        "prompts": [[{"role": "user", "content": "What is 6 * 7?"}]] * 2,  # one object, as of one problem
        "tests": [{"cases": [{"in": [6, 7]}]}, None],
        "trainer_state": TrainerState(global_step=6, log_history=[{"step": 1, "reward": 1.0, "nested": []}]),
    }
    parameters = {"options": {"deep": {"list": []}}}
    before = copy.deepcopy((batch, parameters))
    component = made(
        *("SEEN.append(repr(locals()))", statement),
        "return [float(SEEN[-1] == SEEN[0] and type(trainer_state).__name__ == 'TrainerState')] * 2",
        before="SEEN = []",
        signature="completions, prompts, completion_ids, answer, tests, trainer_state, *, options",
        parameters=parameters,
        further=("tests",),
    )
    assert component(**batch) == component(**batch) == [1.0, 1.0]  # the second call sees what the first one saw
    assert (batch, parameters) == before


def logging(made, statements):
    """What two calls of a component pass to the trainer's `log_extra`."""
    logged = []
    component = made(
        statements, "return [1.0, 0.0]", before="import numpy as np, torch", signature="completions, log_extra"
    )
    for _ in range(2):
        component(**{**BATCH, "log_extra": lambda column, values: logged.append((column, values))})
    return logged


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("[np.float32(0.5), np.bool_(True)]", [0.5, True]),
        ("torch.tensor([0.5, 1.5])", [0.5, 1.5]),
        ("[[1, (2,)], {'a': np.arange(2)}]", [[1, [2]], {"a": [0, 1]}]),
        ("(values := [[1], [2]])); values[0].append(3); (values.pop()", [[1], [2]]),  # changed after it was logged
    ],
)
def test_logged_values_become_json(made, values, expected):
    [column, logged], _ = logging(made, f"log_extra('mine', {values})")
    assert column == "mine"
    assert json.dumps(logged) == json.dumps(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("log_extra(3, [1, 2])", "3: the name of a column is a text"),
        ("log_extra('mine', [1])", "'mine' has 1 values for 2 completions; give a list with one value"),
        ("log_extra('mine', np.array([0, np.inf]))", "'mine' has the value np.float64(inf); a value is"),
        ("log_extra('mine', [object, 1])", "'mine' has the value <class 'object'>; a value is None"),
        ("log_extra('mine', [1, 2]); log_extra('mine', [1, 2])", "'mine' is logged twice in one call"),
    ],
)
def test_logged_values_that_cannot_be_stored_name_the_component(made, call, message):
    with pytest.raises(StudyError) as refusal:
        logging(made, call)
    assert str(refusal.value).startswith(f"components.mine: log_extra: column {message}")
    assert str(refusal.value).endswith(" (at step 7, problems train-3, train-5)")
