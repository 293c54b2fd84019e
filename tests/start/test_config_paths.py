"""Relative paths of a config that lies in another folder than the working folder."""

from __future__ import annotations

import copy
import json

import pytest

from configs import CONFIG
from reward_ablation.start.config_files import from_working_folder
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

REWARDS = """
from reward_ablation.rewards.parameters import FilePath


def listed(completions, *, words: FilePath, limit: int = 1, **columns):
    return [0.0 for _ in completions]


def combined(scores, groups, weights, state):
    return scores
"""
ROWS = "".join(json.dumps({"question": f"{n} + 1?", "answer": str(n + 1)}) + "\n" for n in range(20))


def written() -> dict:
    """A config that names a file in each way."""
    config = copy.deepcopy(CONFIG)
    config["data"]["train"] = {"source": "file", "path": "train.jsonl"}
    config["data"]["evaluation"]["own"] = {"source": "file", "path": "../exam.jsonl"}
    config["components"]["format"] = {"function": "mine.py:listed", "parameters": {"words": "words.txt", "limit": 2}}
    config["evaluation"]["metrics"] = {"own": {"function": "mine.py:listed", "parameters": {"words": "words.txt"}}}
    return config


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a folder of studies, whose files lie beside the config."""
    monkeypatch.chdir(tmp_path)
    studies = tmp_path / "studies"
    studies.mkdir()
    (studies / "train.jsonl").write_text(ROWS)
    (tmp_path / "exam.jsonl").write_text(ROWS.replace("+ 1?", "plus 1?"))
    (studies / "mine.py").write_text(REWARDS)
    (studies / "words.txt").write_text("a b\n")
    return studies


def respelled(config, folder):
    from_working_folder(config, folder / "study.yaml", print)
    return config


def test_paths_start_from_the_folder_of_the_config(folder, tmp_path):
    config = respelled(written(), folder)
    assert config["data"]["train"]["path"] == "studies/train.jsonl"
    assert config["data"]["evaluation"]["own"]["path"] == "exam.jsonl"
    assert config["components"]["format"] == {
        "function": "studies/mine.py:listed",
        "parameters": {"words": "studies/words.txt", "limit": 2},
    }
    assert config["evaluation"]["metrics"]["own"]["parameters"]["words"] == "studies/words.txt"
    resolve(config, "studies/study.yaml", tmp_path)


def test_data_sets_and_arms_may_be_named_as_keys_are(folder):
    config = written()
    exam = {"source": "file", "path": "../exam.jsonl", "columns": {"path": "question"}}  # which names no file
    config["data"]["evaluation"]["columns"] = exam
    config["arms"]["arms"]["parameters"] = {"weights": {"correctness": 1}, "combine": "mine.py:combined"}
    config["arms"]["arms"]["b"]["combine"] = "pcgrad"
    config["arms"]["extra"] = {"columns": {"combine": {"method": "mine.py:combined"}}}
    found = respelled(config, folder)
    assert found["data"]["evaluation"]["columns"] == {**exam, "path": "exam.jsonl"}
    assert found["arms"]["arms"]["b"]["combine"] == "pcgrad"
    assert found["arms"]["arms"]["parameters"]["combine"] == "studies/mine.py:combined"
    assert found["arms"]["extra"]["columns"]["combine"]["method"] == "studies/mine.py:combined"


def test_nothing_is_spelled_anew_beside_the_config_and_of_absolute_paths(folder, tmp_path):
    config = written()
    from_working_folder(config, tmp_path / "study.yaml", print)
    assert config == written()
    config["data"]["train"]["path"] = str(folder / "train.jsonl")
    assert respelled(config, folder)["data"]["train"]["path"] == str(folder / "train.jsonl")


def test_the_meaning_of_earlier_versions_is_an_error_that_says_what_to_write(folder):
    config = written()
    config["data"]["train"]["path"] = "exam.jsonl"
    with pytest.raises(StudyError, match=r"data\.train\.path: exam\.jsonl: .* write \.\./exam\.jsonl$"):
        respelled(config, folder)
    (folder / "mine.py").rename("mine.py")
    with pytest.raises(StudyError, match=r"components\.format\.function: .* write \.\./mine\.py:listed$"):
        respelled(written(), folder)


def test_a_path_that_could_mean_two_files_is_told(folder, tmp_path):
    (tmp_path / "train.jsonl").write_text(ROWS)
    told = []
    config = written()
    from_working_folder(config, folder / "study.yaml", told.append)
    assert config["data"]["train"]["path"] == "studies/train.jsonl"
    [line] = told
    assert line.startswith("warning: data.train.path: train.jsonl is in two folders; that beside ")


def test_values_of_other_kinds_are_left_to_the_check_of_the_config(folder):
    config = {"model": 3, "data": [1], "components": {"a": None, "b": {"function": 1, "parameters": 2}}, "arms": "x"}
    assert respelled(copy.deepcopy(config), folder) == config


def test_a_further_file_changes_a_parameter_of_a_function_that_it_does_not_name(folder):
    known = respelled(written(), folder)
    more = {"components": {"format": {"parameters": {"words": "words.txt"}}}}
    from_working_folder(more, folder / "more.yaml", print, known=known)
    assert more["components"]["format"]["parameters"]["words"] == "studies/words.txt"


def test_a_folder_behind_a_link_is_followed(folder, tmp_path):
    (tmp_path / "deep" / "studies").mkdir(parents=True)
    (tmp_path / "deep" / "train.jsonl").write_text(ROWS)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "studies")
    config = {"data": {"train": {"source": "file", "path": "../train.jsonl"}}}
    from_working_folder(config, tmp_path / "link" / "study.yaml", print)
    assert config["data"]["train"]["path"] == "deep/train.jsonl"
