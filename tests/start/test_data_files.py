"""Data files of the user are read before any job, where no set is prepared yet, and each reward is called once."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from configs import CONFIG, changed
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.start.data_files import check_data_files, trial_of
from reward_ablation.start.full_check import check_reward_files
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

GOOD = {"question": "1 + 1?", "answer": "2", "level": 3}


def study_with(tmp_path, monkeypatch, name: str, text: str, where: str = "data/train", **columns: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    config = changed(copy.deepcopy(CONFIG), where, {"source": "file", "path": name, "columns": columns})
    return resolve(config, "study.yaml", Path())


ROWS = [
    ("my.jsonl", json.dumps(GOOD) + '\n{"question": "a", "question": "b", "answer": "1"}', "line 2: key 'question' "),
    ("my.csv", "question,answer,level\na,1,hard\n", "row 0: level 'hard' is no whole number"),
    ("my.jsonl", json.dumps({**GOOD, "question": "\ud800?"}), "row 0: question has half a character (a surrogate), "),
    ("my.parquet", "version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the file itself; run"),
]


@pytest.mark.parametrize(("name", "text", "message"), ROWS)
def test_a_bad_row_is_named(tmp_path, monkeypatch, name, text, message):
    for where in ("data/train", "data/evaluation/test"):
        study = study_with(tmp_path, monkeypatch, name, text, where)
        with pytest.raises(StudyError) as error:
            check_data_files(study)
        assert str(error.value).removeprefix(f"{where.replace('/', '.')}: {name}").lstrip(":").startswith(f" {message}")


def test_good_rows_pass_and_a_prepared_set_is_not_read_again(tmp_path, monkeypatch):
    study = study_with(tmp_path, monkeypatch, "my.jsonl", json.dumps(GOOD))
    check_data_files(study)
    (tmp_path / "my.jsonl").write_text("{")
    with pytest.raises(StudyError):
        check_data_files(study)
    prepared = tmp_path / study.config.root / study.problems_file
    prepared.parent.mkdir(parents=True)
    prepared.touch()
    check_data_files(study)


TRIAL_ROWS = [
    {"question": "No answer?", "answer": None, "unit": ["none"]},
    {"question": "How far?", "answer": "72", "unit": ["km", {"of": "length"}]},
]
TRIAL_FILE = {"source": "file", "path": "trial_rows.jsonl", "columns": {"unit": "unit"}}


@pytest.fixture
def started(config, tmp_path, monkeypatch):
    """`started(source)`: the study with this training set and a user's reward, in its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial_rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in TRIAL_ROWS))

    def make(source, chat=True):
        config["data"]["train"] = source
        config["components"]["mine"] = {"function": "mine.py:f"}
        config["arms"]["arms"]["a"]["weights"]["mine"] = 1
        config["training"]["num_generations"] = 4
        config["prompt"] = {"chat": chat}
        return resolve(config, "study.yaml", Path())

    (tmp_path / "mine.py").write_text("def f(completions, **columns): return {'72': None}[columns['answer'][0]]\n")
    return make


@pytest.mark.parametrize("prepared", [False, True])
def test_the_first_problem_that_is_trained_on_is_taken(started, prepared):
    study = started(TRIAL_FILE)
    if prepared:
        output = Path(study.config.root) / study.problems_file
        output.parent.mkdir(parents=True)
        prepare(PrepareSpec.model_validate_json(study.train_data_spec), "train", output)
        Path("trial_rows.jsonl").unlink()
    columns, made_up = trial_of(study)
    assert not made_up
    assert len(set(columns["problem_id"])) == 1
    assert columns["answer"] == ["72"] * 4
    assert columns["unit"] == [["km", {"of": "length"}]] * 4
    assert "How far?" in columns["prompts"][0][-1]["content"]
    assert [len(each) for each in columns.values()] == [4] * len(columns)
    assert any("72" in each[0]["content"] for each in columns["completions"])
    assert any(each[0]["content"] == "" for each in columns["completions"])
    assert all(columns["completion_ids"])


@pytest.mark.parametrize(("wanted", "number"), [(10**12, 64), ("many", 8)])
def test_prompts_without_a_chat_are_texts(started, wanted, number):
    study = started({"source": "word_problems", "count": 3, "split": "train"}, chat=False)
    study.config.training["num_generations"] = wanted
    columns, _ = trial_of(study)
    assert len(columns["completions"]) == number
    assert {type(text) for name in ("prompts", "completions") for text in columns[name]} == {str}


def test_an_error_that_a_made_up_problem_may_have_caused_is_told(started):
    study = started({"source": "gsm8k", "split": "train"})
    told = []
    check_reward_files(study, trains=True, scores=False, tell=told.append)
    [line] = told
    assert line.startswith("warning: components.mine: mine.py:f: mine.py, line 1, ")
    assert "KeyError: '42' (called once before the first job with made-up completions, problem made-up/0)" in line


def test_a_start_stops_for_a_faulty_reward_unless_it_trains_nothing_or_the_user_says_so(started, monkeypatch):
    study = started(TRIAL_FILE)
    with pytest.raises(StudyError, match=r"^components\.mine: mine\.py:f: .*the function returned None; return a list"):
        check_reward_files(study, trains=True, scores=False, tell=pytest.fail)
    check_reward_files(study, trains=False, scores=False, tell=pytest.fail)
    monkeypatch.setenv("REWARD_ABLATION_TRY_REWARDS", "no")
    check_reward_files(study, trains=True, scores=False, tell=pytest.fail)
