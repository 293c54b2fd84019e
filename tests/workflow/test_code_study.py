"""A study of programs and their tests, from data to summary: nothing in it speaks of mathematics."""

import copy
import json
import re

import pandas as pd
import pytest

from .conftest import TINY, Study

pytestmark = [pytest.mark.slow, pytest.mark.long]


def tasks(words: str) -> str:
    """Tasks that any program passes which Python can run: a model of a few steps writes hardly any other."""
    numbers = range(2, 14)
    rows = ({"task": f"{words} {number} numbers.", "tests": ["assert True"]} for number in numbers)
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_study_of_programs_speaks_of_passes(tmp_path):
    config = copy.deepcopy(TINY)
    columns = {"question": "task", "answer": None, "unit_tests": "tests"}
    config["data"] = {
        "train": {"source": "file", "path": "train.jsonl", "columns": columns},
        "evaluation": {"programs": {"source": "file", "path": "test.jsonl", "columns": columns}},
    }
    config["components"] = {
        "solved": {"function": "unit_tests", "parameters": {"seconds": 1}},
        "length": {"function": "token_length", "parameters": {"target": 2, "width": 8}},
    }
    config["arms"]["arms"] = {"solved": {"weights": {"solved": 1}}, "both": {"weights": {"solved": 1, "length": 1}}}
    config["evaluation"] = {
        "metrics": {"passes": {"component": "solved", "range": [0, 1]}},
        "samples": 2,
        "max_new_tokens": 16,
    }
    study = Study(tmp_path, config)
    (tmp_path / "train.jsonl").write_text(tasks("Add"))
    (tmp_path / "test.jsonl").write_text(tasks("Multiply"))
    study.make()

    summary = (study.results / "tables/summary.md").read_text()
    assert "passes" in summary
    assert not re.search(r"accurac|lenient|strict|format|mathematic", summary)
    judged = [path.read_text() for path in study.results.glob("tables/*.csv") if path.stem != "examples"]
    assert not re.search(r"accuracy|correct_|lenient", "".join(judged))
    assert (
        pd.read_csv(study.results / "tables/examples.csv")[["gold", "answer", "correct_strict"]].isna().all(axis=None)
    )
    by_run = pd.read_csv(study.results / "tables/evaluation_by_run.csv")
    assert {"passes", "tokens", "truncated"} <= set(by_run.metric)
    rollouts = pd.concat(pd.read_parquet(path) for path in study.results.glob("runs/*/*/rollouts.parquet"))
    assert set(rollouts.score_solved) <= {0.0, 1.0}
    passed = rollouts[rollouts.score_solved == 1].completion
    assert len(passed) > 0
    for program in passed:
        compile(program, "completion", "exec")
