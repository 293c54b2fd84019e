"""Which data need answers and further columns, decided from the config before any job."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from configs import CONFIG, changed
from reward_ablation.study.resolve import resolve
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

REWARDS = """
def by_tests(completions, unit_tests, **columns):
    return [float(len(tests)) for tests in unit_tests]

def by_default(completions, unit_tests=None, **columns):
    return [float(len(tests)) for tests in unit_tests]

def by_column(completions, *, column: str = "unit_tests", **columns):
    return [float(len(value)) for value in columns[column]]

def by_answer(completions, answer, **columns):
    return [1.0 for _ in completions]

def optional_answer(completions, answer=None, **columns):
    return [1.0 for _ in completions]
"""

FORMAT = {"function": "answer_format", "parameters": {"format": "hash"}}
COLUMNS = {"unit_tests": "tests"}


@pytest.fixture
def root(tmp_path) -> Path:
    (tmp_path / "mine.py").write_text(REWARDS)
    (tmp_path / "mine.jsonl").write_text('{"question": "x?", "tests": ["assert f(1)"]}\n')
    return tmp_path


def mine(function: str, **parameters) -> dict:
    return {"function": f"mine.py:{function}", "parameters": parameters}


def file(columns: dict | None = None) -> dict:
    return {"source": "file", "path": "mine.jsonl", "columns": COLUMNS if columns is None else columns}


def study_with(root: Path, train: dict, component: dict, **changes) -> Study:
    """A study with one component."""
    config = copy.deepcopy(CONFIG)
    config["components"] = {"one": component}
    config["arms"]["arms"] = {"a": {"weights": {"one": 1}}}
    config["data"]["train"] = train
    for path, value in changes.items():
        changed(config, path.replace("__", "/"), value)
    return resolve(config, "my.yaml", root)


def golds_of(study: Study) -> bool:
    """Whether the command that prepares the training set asks for golds."""
    return json.loads(study.train_data_spec).get("golds", True)


@pytest.mark.parametrize(
    ("train", "component", "golds"),
    [
        (file(), mine("by_tests"), False),
        (file(), mine("by_column"), False),
        (file(), mine("by_answer"), True),
        (file(), mine("optional_answer"), True),
        (file(), mine("by_column", column="answer"), True),
        (file(), FORMAT, False),
        (file({"answer": None}), FORMAT, False),
        (file({"answer": None, "unit_tests": "tests"}), mine("by_tests"), False),
        ({"source": "mbpp", "split": "train"}, mine("by_tests"), False),
        ({"source": "ifeval", "split": "train"}, {"function": "instructions"}, False),
    ],
)
def test_golds_are_asked_for_where_a_component_takes_answers(root, train, component, golds):
    assert golds_of(study_with(root, train, component)) is golds


@pytest.mark.parametrize("train", [file({}), {"source": "gsm8k", "split": "train"}, CONFIG["data"]["train"]])
def test_data_of_earlier_versions_keep_their_keys_whoever_asks(root, train):
    """Without further columns: such studies may have finished runs."""
    with_answers, without = (study_with(root, train, component) for component in (mine("by_answer"), FORMAT))
    assert "golds" not in with_answers.train_data_spec
    assert without.problems_file == with_answers.problems_file


def test_evaluation_sets_need_golds(root):
    study = study_with(root, file(), mine("by_tests"))
    assert not any("golds" in spec for spec in study.datasets.values())


COLUMNS_HERE = "problem_id, question, answer, solution, source, split, level, subject"


@pytest.mark.parametrize(
    ("train", "component", "message"),
    [
        (
            file({}),
            mine("by_tests"),
            "mine.py:by_tests: asks for the column 'unit_tests', which the data does not have; columns: "
            f"prompts, completions, completion_ids, trainer_state, log_extra, log_metric, {COLUMNS_HERE}; a parameter",
        ),
        (
            file({"tests": "tests"}),
            mine("by_column"),
            "components.one: mine.py:by_column: column: the data does not have the column 'unit_tests'; columns: "
            f"{COLUMNS_HERE}, tests; data.train.columns gives a file further columns",
        ),
        (file(), mine("by_column", column=3), "components.one: mine.py:by_column: column: 3 is no text; name a column"),
        ({"source": "mbpp", "split": "train"}, {"function": "correctness"}, "data.train: mbpp has no answers, and com"),
        (file({"answer": None}), mine("by_column", column="answer"), "data.train: columns.answer is null, and compone"),
        (file({"split": "tests"}), FORMAT, "data.train.columns: 'split' is a column of the workflow; "),
        ({"source": "humaneval", "split": "train"}, FORMAT, "data.train: split: humaneval has no split train; allowed"),
    ],
)
def test_what_the_data_do_not_have_is_refused_in_one_line(root, train, component, message):
    with pytest.raises(StudyError) as refusal:
        study_with(root, train, component)
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("my.yaml: ")
    assert "\n" not in str(refusal.value)


def test_demonstrations_need_answers_where_a_template_has_them(root):
    sft = {"data": {"source": "mbpp", "split": "train"}, "completion": "{solution}"}
    study = study_with(root, CONFIG["data"]["train"], FORMAT, sft=sft)
    assert json.loads(study.sft_data_spec)["golds"] is False
    with pytest.raises(
        StudyError, match=r"sft\.data: mbpp has no answers, and a template of sft\.completion has {answ"
    ):
        study_with(root, CONFIG["data"]["train"], FORMAT, sft=sft | {"completion": ["{solution}", "= {answer}"]})
