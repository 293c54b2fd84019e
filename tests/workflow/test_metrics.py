"""A study that is judged by metrics of its own, on finished runs: nothing is trained again."""

import re
import shutil

import pandas as pd
import pytest

from .conftest import Study

pytestmark = pytest.mark.slow

OWN = """
def passes(completions, **columns):
    return [float("=" in text) for text in completions]

def letters(completions, **columns):
    return [None if problem.endswith("/3") else len(text) for text, problem in zip(completions, columns["problem_id"])]
"""


def rules(output: str) -> dict[str, int]:
    """Number of jobs by rule, of a dry run."""
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)}


def test_own_metrics_judge_stored_answers(finished, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "own")
    study = Study(tmp_path / "own", finished.config)
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
    result = study.snakemake("--", target)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "rule train:" not in result.stdout + result.stderr

    summary = (study.results / "tables/summary.md").read_text()
    assert "test, greedy, passes (table `paired_differences`)" in summary
    assert "## Effects of the components on passes" in summary
    assert "11 questions; left out, as a metric gave an answer to them no score: 1" in summary
    assert not re.search("accuracy|lenient|strict", summary)
    by_arm = pd.read_csv(study.results / "tables/evaluation_by_arm.csv")
    assert list(by_arm["metric"].unique()) == ["passes", "letters", "form", "tokens", "truncated", "pass@1", "pass@2"]
    greedy = by_arm[(by_arm["mode"] == "greedy") & (by_arm["metric"] == "passes") & (by_arm["arm"] == "base")]
    base = next(study.results.glob("evaluation/*/base/*.parquet"))
    answers = pd.concat(pd.read_parquet(path) for path in [base])
    answers = answers[(answers["mode"] == "greedy") & ~answers["problem_id"].str.endswith("/3")]
    if "correct_strict" not in answers:
        assert greedy["estimate"].item() == pytest.approx(answers["completion"].str.contains("=").mean())

    # A change of one metric scores again, and generates nothing.
    (study.folder / "own.py").write_text(OWN.replace('"="', '"+"'))
    again = rules(study.snakemake("-n", "--", target).stdout)
    assert again["score"] == 1 + len(list(study.results.glob("runs/*/seed*")))
    assert not {"train", "evaluate", "evaluate_base"} & again.keys()
