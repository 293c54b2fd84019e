"""Which data need answers and further columns, decided from the config before any job."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from configs import CONFIG
from reward_ablation.study.resolve import resolve
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

REWARDS = """
def by_tests(completions, unit_tests, **columns): ...
def by_column(completions, *, column: str = "unit_tests", **columns): ...
def by_answer(completions, answer=None, **columns): ...
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


def study_with(root: Path, train: dict, component: dict, **sections) -> Study:
    """A study with one component."""
    config = copy.deepcopy(CONFIG) | sections
    config["components"] = {"one": component}
    config["arms"]["arms"] = {"a": {"weights": {"one": 1}}}
    config["data"]["train"] = train
    return resolve(config, "my.yaml", root)


@pytest.mark.parametrize(
    ("train", "component", "golds"),
    [
        (file(), mine("by_tests"), False),
        (file(), mine("by_column"), False),
        (file(), mine("by_answer"), True),
        (file(), mine("by_column", column="answer"), True),
        (file(), FORMAT, False),
        ({"source": "mbpp", "split": "train"}, mine("by_tests"), False),
    ],
)
def test_golds_are_asked_for_where_a_component_takes_answers(root, train, component, golds):
    study = study_with(root, train, component)
    assert json.loads(study.train_data_spec).get("golds", True) is golds
    assert not any("golds" in spec for spec in study.datasets.values())  # evaluation sets need them


@pytest.mark.parametrize("train", [file({}), {"source": "gsm8k", "split": "train"}])
def test_data_of_earlier_versions_keep_their_keys_whoever_asks(root, train):
    """Without further columns: such studies may have finished runs."""
    with_answers, without = (study_with(root, train, component) for component in (mine("by_answer"), FORMAT))
    assert "golds" not in with_answers.train_data_spec
    assert without.problems_file == with_answers.problems_file


@pytest.mark.parametrize(
    ("train", "component", "message"),
    [
        (
            file({}),
            mine("by_tests"),
            "mine.py:by_tests: asks for the column 'unit_tests', which the data does not have; columns: "
            "prompts, completions, completion_ids, trainer_state, log_extra, log_metric, problem_id, question, answer",
        ),
        (file({}), mine("by_column"), "mine.py:by_column: column: the data does not have the column 'unit_tests'; "),
        (file(), mine("by_column", column=3), "components.one: mine.py:by_column: column: 3 is no text; name a column"),
        ({"source": "mbpp", "split": "train"}, {"function": "correctness"}, "data.train: mbpp has no answers, and com"),
        (file({"answer": None}), mine("by_column", column="answer"), "data.train: columns.answer is null, and compone"),
        (file({"split": "tests"}), FORMAT, "data.train.columns: 'split' is a column of the workflow; "),
        ({"source": "humaneval", "split": "train"}, FORMAT, "data.train: split: humaneval has no split train; allowed"),
    ],
)
def test_what_the_data_do_not_have_is_refused_in_one_line(root, train, component, message):
    with pytest.raises(StudyError, match=r"^my\.yaml: .*$") as refusal:
        study_with(root, train, component)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_demonstrations_need_answers_where_a_template_has_them(root):
    sft = {"data": {"source": "mbpp", "split": "train"}, "completion": "{solution}"}
    study = study_with(root, CONFIG["data"]["train"], FORMAT, sft=sft)
    assert json.loads(study.sft_data_spec)["golds"] is False
    sft["completion"] = ["{solution}", "= {answer}"]
    with pytest.raises(StudyError, match=r"sft\.data: mbpp has no answers, and a template of sft\.completion has {ans"):
        study_with(root, CONFIG["data"]["train"], FORMAT, sft=sft)
