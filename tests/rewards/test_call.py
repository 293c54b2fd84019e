"""A reward function is called as TRL calls it, and its scores are checked before training uses them."""

import copy
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import TrainerState

from reward_ablation.rewards.load import check_component, load_component
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import may_pass

#: What TRL gives for a batch of two completions of one problem.
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


def written(tmp_path, text, name="mine.py"):
    (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("completions, **kwargs", "[len(text) for text in completions]"),
        ("completion_ids, **kwargs", "[3 * len(ids) for ids in completion_ids]"),
        ("prompts, completions, answer", "[len(text) for text in completions]"),  # nothing that it does not name
        ("*, completions, answer, **kwargs", "[len(text) for text in completions]"),  # after *, without a default
        ("completions, log_extra=None, log_metric=None, **kwargs",
         "[len(text) for text in completions] if log_metric and log_extra else None"),  # as trl.rewards has it
        ("completions, *, trainer_state=None, **kwargs", "[trainer_state.global_step + 3] * len(completions)"),
        ("*args, **kwargs", "[len(text) for text in kwargs['completions']]"),
        ("completions, answer=None, *, weight: float = 1.0", "[weight * len(text) for text in completions if answer]"),
        ("completions, *, level=9, **kwargs", "[level if 'level' not in kwargs else 0] * len(completions)"),
    ],
)  # fmt: skip
def test_functions_get_what_they_ask_for_by_keyword(tmp_path, signature, body):
    root = written(tmp_path, f"def f({signature}):\n    return {body}\n")
    second = 6.0 if "ids" in body else 9.0
    assert load_component("mine.py:f", {}, root, "mine")(**BATCH, level=[1, 2]) == [9.0, second]


@pytest.mark.parametrize(
    ("signature", "parameters", "message"),
    [
        ("completions, ground_truth, **kwargs", {}, "mine.py:f: asks for the column 'ground_truth', which the data does"
         " not have; columns: prompts, completions, completion_ids, trainer_state, log_extra, log_metric, problem_id,"),
        ("texts, **kwargs", {}, "asks for the column 'texts', which the data does not have"),
        ("completions, limit", {"limit": 3}, "the column 'limit', .*; a parameter has a default or stands after *"),
        ("completions, /, **kwargs", {}, "takes 'completions' by its position; reward functions are called by keyword"),
        ("completions, *, limit", {}, "parameter 'limit' is missing; parameters of mine.py:f: limit"),
        ("completions, log_metric=None", {"log_metric": 1}, "unknown parameter 'log_metric'"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_told_when_the_config_is_read(tmp_path, signature, parameters, message):
    root = written(tmp_path, f"def f({signature}):\n    return []\n")
    with pytest.raises(StudyError, match=message.replace("*", r"\*").replace(r".\*", ".*")):
        check_component("mine.py:f", parameters, root)


WHERE = r"^components\.mine: at step 7, "


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("[1.0, float('nan')]", WHERE + r"problem train-5: the score is nan; a score is a finite number, or None"),
        ("[float('inf'), 1.0]", WHERE + r"problem train-3: the score is inf; "),
        ("[1.0, 1e39]", WHERE + r"problem train-5: the score is 1e\+39; "),  # infinity in float32
        ("[1.0, 10 ** 400]", WHERE + r"problem train-5: the score is 1000+\.\.\.; "),
        ("['good', 1.0]", WHERE + r"problem train-3: the score is 'good', which is not a number"),
        ("[[1.0], 1.0]", WHERE + r"problem train-3: the score is \[1\.0\], which is not a number"),
        ("[1.0]", WHERE + r"problems train-3, train-5: the function returned 1 scores for 2 completions; return one"),
        ("None", r"^components\.mine: at step 7: the function returned None; return a list of scores"),
        ("'ab'", r"^components\.mine: at step 7: the function returned 'ab'; return a list of scores"),
    ],
)
def test_scores_that_cannot_be_used_name_component_step_and_problem(tmp_path, output, message):
    root = written(tmp_path, f"def f(completions, **columns):\n    return {output}\n")
    with pytest.raises(StudyError, match=message) as refusal:
        load_component("mine.py:f", {}, root, "mine")(**BATCH)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("output", "scores"),
    [
        ([None, 1], [None, 1.0]),
        ([True, False], [1.0, 0.0]),
        (np.array([0.5, 1.5], dtype=np.float32), [0.5, 1.5]),
        (torch.tensor([0.5, 1.5]), [0.5, 1.5]),
        ((score for score in (0.5, None)), [0.5, None]),
    ],
)
def test_what_trl_takes_as_scores_is_taken(tmp_path, output, scores):
    root = written(tmp_path, "def f(completions, *, scores, **columns):\n    return scores\n")
    assert load_component("mine.py:f", {"scores": output}, root)(**BATCH) == scores


FAILING = '''
def f(completions, answer, **columns):
    return [score(text, gold) for text, gold in zip(completions, answer)]

def score(text, gold):
    """Deeper."""
    {statement}
'''


@pytest.mark.parametrize(
    ("statement", "passing", "told"),
    [
        ("return {'42': 1}['41']", False, "`return {'42': 1}['41']`: KeyError: '41'"),
        ("raise ValueError('two' + chr(10) + 'lines' + chr(27))", False, "ValueError: two lines\\x1b"),
        ("assert text == gold", False, "`assert text == gold`: AssertionError"),
        ("raise ConnectionResetError(104, 'reset')", True, "ConnectionResetError: [Errno 104] reset"),
        # the network's error, as libraries wrap it
        ("\n    try:\n        raise TimeoutError('slow')\n    except TimeoutError as error:\n"
         "        raise RuntimeError('no judge') from error", True, "RuntimeError: no judge"),
        ("raise SystemExit(3)", False, "SystemExit: 3"),
        ("import sys; sys.exit()", False, "SystemExit"),
        ("open('no such file')", False, "FileNotFoundError: [Errno 2] No such file or directory: 'no such file'"),
    ],
)  # fmt: skip
def test_an_error_in_a_reward_shows_the_users_own_line(tmp_path, monkeypatch, capsys, statement, passing, told):
    monkeypatch.chdir(tmp_path)
    component = load_component("mine.py:f", {}, written(tmp_path, FAILING.replace("{statement}", statement)), "mine")
    with pytest.raises(StudyError) as error:
        component(**BATCH)
    assert may_pass(error.value) == passing
    text = str(error.value)
    assert text.startswith("components.mine: mine.py, line ")
    assert text.endswith(f"{told} (at step 7, problems train-3, train-5)")
    assert "\n" not in text
    log = capsys.readouterr().err
    assert "in score" in log  # the frames of the file, and none of ours
    assert "reward_ablation" not in log
    assert "\x1b" not in log


def test_an_error_of_storage_or_of_the_gpu_stays_what_it_is(tmp_path):
    """Training handles these errors itself."""
    text = "def f(completions, **columns):\n    raise OSError(28, 'No space left on device')\n"
    with pytest.raises(OSError, match="No space left"):
        load_component("mine.py:f", {}, written(tmp_path, text), "mine")(**BATCH)
    text = "import torch\n\ndef g(completions, **columns):\n    raise torch.OutOfMemoryError('full')\n"
    with pytest.raises(torch.OutOfMemoryError):
        load_component("gpu.py:g", {}, written(tmp_path, text, "gpu.py"), "mine")(**BATCH)


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("torch.set_grad_enabled(False)", r"torch\.is_grad_enabled\(\) from True to False"),
        (
            "torch.set_default_dtype(torch.float64)",
            r"torch\.get_default_dtype\(\) from torch\.float32 to torch\.float64",
        ),
        ("os.chdir('/')", r"os\.getcwd\(\) from \S+ to /"),
    ],
)
def test_a_reward_that_changes_its_process_is_named(tmp_path, monkeypatch, statement, call):
    monkeypatch.chdir(tmp_path)
    body = f"import os, torch\ndef f(completions, **columns):\n    {statement}\n    return [1.0] * len(completions)\n"
    written(tmp_path, f"import os, torch\n{statement}\n{body}", "own.py")
    component = load_component("mine.py:f", {}, written(tmp_path, body), "mine")
    lines = []
    for load in (lambda: component(**BATCH), lambda: load_component("own.py:f", {}, tmp_path)):
        with pytest.raises(StudyError) as refusal:
            load()
        lines.append(str(refusal.value))
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        os.chdir(tmp_path)
    assert re.search(WHERE + f"problems train-3, train-5: the function changes {call}, with which ", lines[0])
    assert re.search(rf"^components: own\.py:f: the import of own\.py changes {call}, with which ", lines[1])


def test_a_reward_may_change_its_process_while_it_scores(tmp_path):
    text = (
        "import contextlib, torch\ndef f(completions, **columns):\n    with torch.no_grad(), contextlib.chdir('/'):\n"
        "        return [1.0] * len(completions)\n"
    )
    assert load_component("mine.py:f", {}, written(tmp_path, text), "mine")(**BATCH) == [1.0, 1.0]


MESSAGES = [[{"role": "assistant", "content": text}] for text in BATCH["completions"]]


@pytest.mark.parametrize(
    "statement",
    [
        "completions.pop()",
        "completions[0][0]['content'] = ''",
        "prompts[1][0]['content'] += ' Think.'",
        "completion_ids[0].clear()",
        "tests[0]['cases'][0]['in'].append(0)",
        "limits.append(0)",
        "options['deep']['list'].append(0)",
        "trainer_state.log_history[0]['nested'].append(9)",
        "trainer_state.stateful_callbacks['mine']['args']['count'] = 9",
        "trainer_state.global_step = 9",
    ],
)
def test_what_a_reward_changes_in_its_arguments_reaches_nothing_else(tmp_path, statement):
    state = TrainerState(global_step=6, stateful_callbacks={"mine": {"args": {"count": 1}}})
    state.log_history = [{"step": 1, "reward": 1.0, "nested": []}]
    batch = {
        **{name: BATCH[name] for name in ("completion_ids", "problem_id", "answer")},
        "completions": MESSAGES,
        "prompts": [[{"role": "user", "content": "What is 6 * 7?"}]] * 2,  # one object, as of one problem
        "tests": [{"cases": [{"in": [6, 7]}]}, None],
        "trainer_state": state,
    }
    parameters = {"limits": [1, 2], "options": {"deep": {"list": []}}}
    before = copy.deepcopy((batch, parameters))
    text = (
        "SEEN = []\n"
        "def f(completions, prompts, completion_ids, answer, tests, trainer_state, *, limits, options):\n"
        "    SEEN.append(repr(locals()))\n"
        f"    {statement}\n"
        "    return [float(SEEN[-1] == SEEN[0] and type(trainer_state).__name__ == 'TrainerState')] * 2\n"
    )
    component = load_component("mine.py:f", parameters, written(tmp_path, text), "mine", further=("tests",))
    assert component(**batch) == component(**batch) == [1.0, 1.0]  # the second call sees what the first one saw
    assert (batch, parameters) == before
    assert vars(state) == vars(before[0]["trainer_state"])


def logging(tmp_path, statements):
    """What two calls of a component pass to the trainer's `log_extra`."""
    text = f"import numpy as np, torch\ndef f(completions, log_extra):\n    {statements}\n    return [1.0, 0.0]\n"
    component, logged = load_component("mine.py:f", {}, written(tmp_path, text), "mine"), []
    for _ in range(2):
        component(**{**BATCH, "log_extra": lambda column, values: logged.append((column, values))})
    return logged


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("['a', None]", ["a", None]),
        ("(True, 2)", [True, 2]),
        ("np.array([1, 2])", [1, 2]),
        ("[np.float32(0.5), np.bool_(True)]", [0.5, True]),
        ("torch.tensor([0.5, 1.5])", [0.5, 1.5]),
        ("[[1, (2,)], {'a': np.arange(2)}]", [[1, [2]], {"a": [0, 1]}]),
        ("(values := [[1], [2]])); values[0].append(3); (values.pop()", [[1], [2]]),  # changed after it was logged
    ],
)
def test_logged_values_become_json(tmp_path, values, expected):
    [column, logged], _ = logging(tmp_path, f"log_extra('mine', {values})")
    assert column == "mine"
    assert json.dumps(logged) == json.dumps(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("log_extra(3, [1, 2])", "3: the name of a column is a text"),
        ("log_extra('mine', [1])", "'mine' has 1 values for 2 completions; give a list with one value"),
        ("log_extra('mine', 'ab')", "'mine' is 'ab' for 2 completions; give a list"),
        ("log_extra('mine', [0.5, float('nan')])", "'mine' has the value nan; a value is None, a finite"),
        ("log_extra('mine', np.array([0, np.inf]))", "'mine' has the value np.float64(inf); a value is"),
        ("log_extra('mine', [object, 1])", "'mine' has the value <class 'object'>; a value is None"),
        ("log_extra('mine', [1, 2]); log_extra('mine', [1, 2])", "'mine' is logged twice in one call"),
    ],
)  # fmt: skip
def test_logged_values_that_cannot_be_stored_name_the_component(tmp_path, call, message):
    with pytest.raises(StudyError) as refusal:
        logging(tmp_path, call)
    assert str(refusal.value).startswith(f"components.mine: log_extra: column {message}")
    assert str(refusal.value).endswith(" (at step 7, problems train-3, train-5)")
