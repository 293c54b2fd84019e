"""Data files of the user are read before any job, where their sets are not prepared yet."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from configs import CONFIG, changed
from reward_ablation.start.data_files import check_data_files
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


def test_a_bad_text_in_a_further_column_is_named(tmp_path, monkeypatch):
    row = {**GOOD, "tests": {"a": ["\udc00"]}}
    study = study_with(tmp_path, monkeypatch, "my.jsonl", json.dumps(row), tests="tests")
    with pytest.raises(StudyError, match="row 0: tests has half a character"):
        check_data_files(study)


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
