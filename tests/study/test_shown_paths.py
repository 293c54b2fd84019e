"""Paths in what is shared: below the study's folder, or a name with a digest."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from configs import changed
from reward_ablation.report.pages import ReportPages
from reward_ablation.start.declarations import Declarations
from reward_ablation.study.resolve import resolve
from reward_ablation.study.shown_paths import shown_path, without_places
from reward_ablation.system.files import write_json

ROWS = "".join(json.dumps({"id": str(n), "question": f"{n} + 1?", "answer": str(n + 1)}) + "\n" for n in range(12))
DIGEST = hashlib.sha256(ROWS.encode()).hexdigest()[:16]


@pytest.fixture
def root(tmp_path):
    """A study's folder, with problems inside and outside, and a model outside."""
    root = tmp_path / "alice" / "study"
    (tmp_path / "alice" / "model").mkdir(parents=True)
    (tmp_path / "alice" / "model" / "config.json").write_text("{}")
    (root / "data").mkdir(parents=True)
    for folder in (root / "data", tmp_path / "alice"):
        (folder / "mine.jsonl").write_text(ROWS)
    return root


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("data/mine.jsonl", "data/mine.jsonl"),
        ("{root}/data/mine.jsonl", "data/mine.jsonl"),
        ("{root}/../mine.jsonl", f"mine.jsonl (sha256 {DIGEST})"),
        ("{root}/../missing.jsonl", "missing.jsonl"),
        ("{root}/..", "alice"),  # no model
        ("{root}/../model", "model (content 555dc36908b373a3)"),
    ],
)
def test_a_path_is_shown_without_folders_of_the_disk(root, path, shown, monkeypatch):
    assert shown_path(path.format(root=root), root) == shown
    monkeypatch.chdir(root)
    assert shown_path(path.format(root=root), Path()) == shown
    assert shown_path(path.format(root=root), root, with_digest=False) == shown.partition(" ")[0]


def test_folders_within_texts_are_taken_out_and_other_texts_stay(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root.parent))
    values = {"f": f"{root.parent}/own.py:f", "x": f"--chdir={root}/a --log={root.parent}/b", "t": f"{root}/judge.txt"}
    shown = {"f": "own.py:f", "x": "--chdir=a --log=~/b", "t": "judge.txt"}
    assert without_places(values, root) == shown
    others = {"a": ["/no_think", "https://judge.example:8000/v1", "{question}\n/a/b", "//", 1, None]}
    assert without_places(others, root) == without_places(others, Path("/")) == others


def test_study_and_pages_name_no_folder(config, root):
    shown = f"mine.jsonl (sha256 {DIGEST})"
    config = changed(config, "data/train", {"source": "file", "path": str(root.parent / "mine.jsonl")})
    config["launch"] = {"resources": {"slurm_extra": f"--comment={root}/a"}}
    study = resolve(config, "study.yaml", root)
    assert study.summary["training_data"] == shown
    write_json(Declarations(study).content(), root / "study.json")
    ReportPages(config, study).write(root, root / "study.json")
    for name in ("config.html", "arms.html", "environment.html", "commands.html", "study.json"):
        assert str(root.parent) not in (root / name).read_text()
    assert f"path: {shown}" in (root / "config.html").read_text()


def test_an_absolute_path_in_a_runs_record_is_reported(config, root):
    (root / "mine.py").write_text("def f(completions, *, rules='', **columns): ...\n")
    config["components"]["format"] = {"function": "mine.py:f", "parameters": {"rules": "rules.txt"}}
    assert not any("absolute path" in line for line in resolve(config, "study.yaml", root).warnings)
    config["components"]["format"] = {"function": f"{root}/mine.py:f", "parameters": {"rules": str(root / "r.txt")}}
    warnings = [line for line in resolve(config, "study.yaml", root).warnings if "absolute path" in line]
    places = {"components.format.function", "components.format.parameters.rules"}
    assert {line.partition(":")[0] for line in warnings} == places
    assert not any(os.sep + "alice" in line for line in warnings)
