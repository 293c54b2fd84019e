"""The problem with which a start calls each reward function once before the first job."""

import json
from pathlib import Path

import pytest

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.start.data_files import trial_of
from reward_ablation.start.full_check import check_reward_files
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

ROWS = [
    {"question": "No answer?", "answer": None, "unit": ["none"]},
    {"question": "How far?", "answer": "72", "unit": ["km", {"of": "length"}]},
]
FILE = {"source": "file", "path": "trial_rows.jsonl", "columns": {"unit": "unit"}}


@pytest.fixture
def started(config, tmp_path, monkeypatch):
    """`started(source)`: the study with this training set and a user's reward, in its folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial_rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))

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
    study = started(FILE)
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
    study = started(FILE)
    with pytest.raises(StudyError, match=r"^components\.mine: mine\.py:f: .*the function returned None; return a list"):
        check_reward_files(study, trains=True, scores=False, tell=pytest.fail)
    check_reward_files(study, trains=False, scores=False, tell=pytest.fail)
    monkeypatch.setenv("REWARD_ABLATION_TRY_REWARDS", "no")
    check_reward_files(study, trains=True, scores=False, tell=pytest.fail)
