"""A secret that a component reads from the environment: its name is recorded, its value is nowhere."""

from __future__ import annotations

import json

import pytest

from .conftest import refusal, with_inputs_of

pytestmark = pytest.mark.slow

SECRET = "very-private-indeed"

JUDGE = """
def judge(completions, *, api_key: str, **columns):
    return [float(len(api_key)) - len(text) / 100 for text in completions]
"""


def test_the_value_of_a_secret_is_nowhere(finished, study, monkeypatch):
    with_inputs_of(finished, study)
    inputs = sorted(study.results.rglob("*.json"))
    judge = {"function": "rewards/judge.py:judge", "parameters": {"api_key": {"env": "JUDGE_API_KEY"}}}
    study.config["seeds"] = [0]
    study.config["components"]["judge"] = judge
    study.config["arms"]["arms"] = {"judged": {"weights": {"judge": 1}}}
    study.config["training"]["max_steps"] = 1
    (study.folder / "rewards").mkdir()
    (study.folder / "rewards" / "judge.py").write_text(JUDGE)
    targets = ["--printshellcmds", "--until", "train", "report_pages"]

    monkeypatch.delenv("JUDGE_API_KEY", raising=False)
    assert refusal(study.snakemake(*targets)) == (
        "error: components.judge.parameters: the environment variable JUDGE_API_KEY is not set; set it with `export "
        "JUDGE_API_KEY=...`, then run the same command again"
    )
    assert sorted(study.results.rglob("*.json")) == inputs  # no job has run

    monkeypatch.setenv("JUDGE_API_KEY", SECRET)
    assert SECRET not in study.make(*targets)
    [record] = [json.loads(path.read_text()) for path in study.results.glob("runs/*/*/run.json")]
    assert record["spec"]["components"]["judge"]["parameters"] == judge["parameters"]
    files = [path for path in study.folder.rglob("*") if path.is_file()]
    assert {"study.json", "config.html", "seed0.log"} <= {path.name for path in files}
    assert any(".snakemake" in path.parts for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
