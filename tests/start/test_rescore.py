"""Which components follow from stored texts, and what the others are told."""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.data.problems import prepare
from reward_ablation.start.data_files import parsed, sets_of
from reward_ablation.start.rescore import _is_text, _scores
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

#: A function that hands its columns on to another file.
HANDS_ON = "from {0} import other\ndef own(completions, **columns):\n    return other(completions, **columns)\n"
READS = "def other(completions, **columns):\n    return [len(set(ids)) for ids in columns['completion_ids']]\n"
LOOKS = "def other(completions, **columns):\n    ids = columns['completion_' + 'ids']\n    return {0}\n"
CATCHES = """
def other(completions, **columns):
    try:
        return [len(set(ids)) for ids in columns["completion_" + "ids"]]
    except Exception:
        return [0.0] * len(completions)
"""


@pytest.fixture
def study(config, tmp_path, monkeypatch):
    """A study with the component `own.py:own` of weight 0, and its prepared problems; `helper.py` is to be written."""
    monkeypatch.delitem(sys.modules, "helper", raising=False)

    def make(own, helper):
        (tmp_path / "own.py").write_text(own)
        (tmp_path / "helper.py").write_text(helper)
        config["components"]["variety"] = {"function": "own.py:own"}
        study = resolve(config, "study.yaml", tmp_path)
        [problems] = [each for each in sets_of(study) if each.file == study.problems_file]
        (study.results / problems.file).parent.mkdir(parents=True, exist_ok=True)
        prepare(parsed(problems.spec), "train", study.results / problems.file, [])
        return study, next(iter(study.runs.values()))

    return make


def rollouts(study, *rows):
    """Rollouts of the first two problems, one after the other: step, completion and its number of tokens."""
    problems = pq.read_table(study.results / study.problems_file)["id"].to_pylist()[:2]
    names = ("step", "completion", "tokens")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({"problem_id": [problems[number % 2] for number in range(len(rows))], **columns})


@pytest.mark.parametrize(
    ("own", "helper", "is_text"),
    [
        (HANDS_ON.format("helper"), "def other(completions, **columns):\n    return [1] * len(completions)\n", True),
        (HANDS_ON.format("helper"), "from third import other\n", False),  # at any depth
        (HANDS_ON.format("reward_ablation.rewards.components.token_length"), "", True),
        (HANDS_ON.format("reward_ablation.rewards.components.random"), "", False),
    ],
)
def test_all_files_that_a_component_reaches_are_searched(study, tmp_path, own, helper, is_text):
    (tmp_path / "third.py").write_text(READS)
    made, run = study(own, helper)
    assert _is_text(made, run, "variety") is is_text


@pytest.mark.parametrize(
    ("helper", "scores"),
    [
        (LOOKS.format("[len(each) for each in ids]"), [3.0, 4.0]),
        (LOOKS.format("[each[0] for each in ids]"), None),
        (CATCHES, None),
    ],
)
def test_tokens_have_a_number_and_nothing_else(study, helper, scores):
    made, run = study(HANDS_ON.format("helper"), helper)
    table = rollouts(made, (1, "a b c", 3), (1, "d e f g", 4))
    if scores:
        assert _scores("variety", run, made, table) == scores
        return
    with pytest.raises(StudyError, match=r"^components.variety: .*reads completion_ids, which no run stores"):
        _scores("variety", run, made, table)


@pytest.mark.parametrize(
    ("rows", "processes", "calls"),
    [(16, 1, [16, 16]), (24, 2, [16, 8, 16, 8]), (2, 1, [2, 2])],
)
def test_a_function_is_called_for_each_process_as_in_training(study, config, rows, processes, calls):
    """A group in several processes is scored by the one that has its first completion."""
    config["launch"] = {"gpus": processes} if processes > 1 else {}
    config["training"] |= {"per_device_train_batch_size": max(rows // processes, 8), "num_generations": 8}
    own = "def own(completions, **columns):\n    return [len(completions)] * len(completions)\n"
    made, run = study(own, "")
    table = rollouts(made, *[(1, "a", 1)] * rows, *[(2, "a", 1)] * rows)
    assert _scores("variety", run, made, table) == [float(size) for size in calls for _ in range(size)]


@pytest.mark.parametrize("installed", [False, True])
def test_the_files_of_a_package_are_searched_too(study, config, tmp_path, monkeypatch, installed):
    """By relative imports, and in an installed package wherever they are."""
    home = tmp_path / "elsewhere" if installed else tmp_path
    (home / "lib_of_own").mkdir(parents=True)
    (home / "lib_of_own" / "__init__.py").write_text("")
    for name, helper in (("reads", "sched"), ("plain", "words")):
        (home / "lib_of_own" / f"{name}.py").write_text(HANDS_ON.format(f".{helper}"))
    (home / "lib_of_own" / "sched.py").write_text("def other(_, trainer_state, **columns): ...\n")
    (home / "lib_of_own" / "words.py").write_text("def other(completions, **columns): ...\n")
    if installed:
        monkeypatch.syspath_prepend(home)
    config["components"] |= {name: {"function": f"lib_of_own.{name}:own"} for name in ("reads", "plain")}
    made, run = study(HANDS_ON.format("helper"), "")
    assert [_is_text(made, run, name) for name in ("reads", "plain")] == [False, not installed]


def test_a_component_that_changes_while_runs_are_made_scores_none_of_the_others(study, tmp_path):
    own = "def own(completions, **columns):\n    return [1.0 for _ in completions]\n"
    made, run = study(own, "")
    table = rollouts(made, (1, "a", 1))
    assert _scores("variety", run, made, table) == [1.0]
    (tmp_path / "own.py").write_text(own.replace("1.0", "2.0"))
    with pytest.raises(StudyError, match=r"own\.py: the file, or one that it imports, has changed since"):
        _scores("variety", run, made, table)
