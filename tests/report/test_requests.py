"""Requests of metrics about the answers of all models of a run, counted from the records beside the scores."""

import json

import pandas as pd
import pytest

from analysis.all_tables import command
from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import read_study
from reward_ablation.report.cost.tables import requests_of_metrics
from reward_ablation.system.files import write_json

COUNTS = {"requests": 6, "kept": 2, "retries": 1, "unanswered": 3, "prompt_tokens": 50, "completion_tokens": 10}


@pytest.fixture
def judged(tmp_path):
    """A study with two data sets and kept models: the answers of its first run were judged by two models."""
    path = MadeUpStudy(datasets={"one": 3, "two": 3}, keep_models=2).write(tmp_path)
    plan = json.loads(path.read_text())
    plan["scores"] = {dataset: f"scores/{{run}}/{dataset}.parquet" for dataset in ("one", "two")}
    write_json(plan, path)
    study = read_study(path)
    run = study.runs[0]
    files = [of(dataset, run.name) for dataset in ("one", "two") for of in (study.scores_file, study.kept_scores_file)]
    for file in files:
        record = (tmp_path / file).with_suffix(".json")
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json({"requests": {"m": COUNTS, "n": COUNTS}}, record)
    return study, run, tmp_path, [(tmp_path / file).with_suffix(".json") for file in files]


def test_they_are_summed_over_data_sets_models_and_judges(judged):
    study, run, root, _ = judged
    assert requests_of_metrics(study, run, root) == {
        "metric_requests": 48,
        "metric_unanswered": 24,
        "metric_prompt_tokens": 400,
        "metric_completion_tokens": 80,
    }
    assert set(requests_of_metrics(study, study.runs[1], root).values()) == {0}


@pytest.mark.parametrize("content", [None, "{", "[]", '{"requests": {"m": {"requests": "x"}}}'])
def test_a_lost_record_counts_nothing(judged, content):
    study, run, root, records = judged
    records[0].unlink()
    if content is not None:
        records[0].write_text(content)
    assert requests_of_metrics(study, run, root)["metric_requests"] == 36


def test_they_are_in_the_cost_table_and_its_sentence(judged):
    _, run, root, _ = judged
    command("cost", root, root / "tables")
    table = pd.read_csv(root / "tables" / "cost.csv").set_index("arm")
    assert table.loc[run.arm, "metric_requests"] == table.loc["all arms", "metric_requests"] == 48
    assert table.loc["all arms", "judge_requests"] == 0
    page = (root / "tables" / "cost.html").read_text()
    assert "; requests of metrics: 48, with 480 tokens." in page
    assert "judge" not in page
