"""A study with metrics of its own on finished runs: nothing is trained again."""

import json
import re

import pandas as pd
import pytest

from .conftest import jobs_of

pytestmark = pytest.mark.slow

OWN = """
def passes(completions, **columns):
    return [float("=" in text) for text in completions]

def letters(completions, **columns):
    return [None if problem.endswith("/3") else len(text) for text, problem in zip(completions, columns["problem_id"])]
"""


@pytest.fixture
def study(finished, tmp_path):
    """A finished study whose answers can be judged anew."""
    return finished.copied(tmp_path / "own")


@pytest.mark.usefixtures("_blank_figures")
def test_own_metrics_judge_stored_answers(study):
    (study.folder / "own.py").write_text(OWN)
    study.config["evaluation"] |= {
        "answer_format": None,
        "metrics": {
            "passes": {"function": "own.py:passes", "range": [0, 1]},
            "letters": {"function": "own.py:letters", "higher_is_better": False},
            "form": {"component": "format", "range": [0, 1]},
        },
    }
    target = "results/tiny/tables/summary.md"
    assert "train" not in jobs_of(study.make(target))

    summary = (study.results / "tables/summary.md").read_text()
    assert "test, greedy, passes (table `paired_differences`)" in summary
    assert "## Effects of the components on passes" in summary
    assert "11 questions; left out, because a metric gave no score to an answer: 1" in summary
    assert not re.search("accuracy|lenient|strict", summary)
    by_arm = pd.read_csv(study.results / "tables/evaluation_by_arm.csv")
    assert list(by_arm["metric"].unique()) == ["passes", "letters", "form", "tokens", "truncated", "pass@1", "pass@2"]
    passes = by_arm.query("mode == 'greedy' and metric == 'passes' and arm == 'base'")["estimate"].item()
    answers = pd.read_parquet(next(study.results.glob("evaluation/*/base/*.parquet"))).query("mode == 'greedy'")
    answers = answers[~answers["problem_id"].str.endswith("/3")]
    assert passes == pytest.approx(answers["completion"].str.contains("=").mean())

    # A change of one metric scores again, and generates nothing.
    (study.folder / "own.py").write_text(OWN.replace('"="', '"+"'))
    again = study.planned(target)
    assert again["score"] == 1 + len(list(study.results.glob("runs/*/seed*")))
    assert not {"train", "evaluate", "evaluate_base"} & again.keys()

    # So does other code, also where it prepares the evaluation set anew.
    (study.folder / "own.py").write_text(OWN)
    for record in (*study.results.glob("scores/**/*.json"), *study.results.glob("data/evaluation/*.json")):
        record.write_text(json.dumps({**json.loads(record.read_text()), "code": "other"}))
    prepared = study.planned(target)
    assert (prepared["score"], prepared["prepare_evaluation"]) == (again["score"], 1)
