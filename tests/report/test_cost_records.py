"""Hours and requests that are counted from the records beside a run's answers and scores."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, run_rule
from reward_ablation.analysis.study_file import read_study
from reward_ablation.report.cost.tables import evaluation_hours, requests_of_metrics, scoring_hours
from reward_ablation.system.files import write_json

REQUESTS = {"requests": 6, "kept": 2, "retries": 1, "unanswered": 3, "prompt_tokens": 50, "completion_tokens": 10}
BENCHMARK = "s\th:m:s\tmax_rss\n1800.0\t0:30:00\t12.5\n"


@pytest.fixture
def written(tmp_path):
    """Two data sets and kept models: four files of answers and four of scores for the first run.

    Each file took half an hour on one GPU, and two models were asked for the scores of each.
    """
    path = MadeUpStudy(datasets={"one": 3, "two": 3}, keep_models=2).write(tmp_path)
    scores = {name: f"scores/{{run}}/{name}-01234567.parquet" for name in ("one", "two")}
    write_json({**json.loads(path.read_text()), "scores": scores, "scoring_gpus": 1}, path)
    study = read_study(path)
    run = study.runs[0]
    for dataset in ("one", "two"):
        for of in (study.answers_file, study.kept_answers_file):
            record = {"wall_seconds": 1800.0, "gpu_hours": 0.5, "cpu_hours": 2.0}
            write(tmp_path / of(dataset, run.name), ".json", json.dumps(record))
        for of in (study.scores_file, study.kept_scores_file):
            write(tmp_path / of(dataset, run.name), ".json", json.dumps({"requests": {"m": REQUESTS, "n": REQUESTS}}))
            file = Path(of(dataset, run.name))
            write(tmp_path / "benchmarks" / "score" / run.name / file.name, ".tsv", BENCHMARK)
    return study, run, tmp_path


def write(beside: Path, ending: str, content: str) -> None:
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.with_suffix(ending).write_text(content)


def damage(path: Path, content: str | None) -> None:
    path.unlink()
    if content is not None:
        path.write_text(content)


def test_hours_are_summed_over_data_sets_and_models(written):
    hours = {"evaluation_wall_hours": 2.0, "evaluation_gpu_hours": 2.0, "evaluation_cpu_hours": 8.0}
    assert evaluation_hours(*written) == hours
    assert scoring_hours(*written) == {"scoring_wall_hours": 2.0, "scoring_gpu_hours": 2.0}
    without = written[0].model_copy(update={"scores": {}}), *written[1:]
    assert scoring_hours(*without) == {"scoring_wall_hours": 0.0, "scoring_gpu_hours": 0.0}


@pytest.mark.parametrize("content", [None, '{"wall_seconds": 1}'])
def test_hours_of_a_lost_record_are_not_known(written, content):
    study, run, root = written
    damage((root / study.kept_answers_file("one", run.name)).with_suffix(".json"), content)
    damage(root / "benchmarks" / "score" / run.name / "two-01234567.steps.tsv", content)
    assert all(math.isnan(value) for value in evaluation_hours(study, run, root).values())
    assert all(math.isnan(value) for value in scoring_hours(study, run, root).values())


@pytest.mark.parametrize("content", [None, '{"requests": {"m": {"requests": "x"}}}'])
def test_requests_are_summed_and_a_lost_record_counts_nothing(written, content):
    study, run, root = written
    sums = {"requests": 48, "unanswered": 24, "prompt_tokens": 400, "completion_tokens": 80}
    assert requests_of_metrics(study, run, root) == {f"metric_{name}": number for name, number in sums.items()}
    assert set(requests_of_metrics(study, study.runs[1], root).values()) == {0}
    damage((root / study.scores_file("one", run.name)).with_suffix(".json"), content)
    assert requests_of_metrics(study, run, root)["metric_requests"] == 36


def test_requests_are_in_the_cost_table_and_its_sentence(written):
    _, run, root = written
    run_rule("cost", root, root / "tables")
    table = pd.read_csv(root / "tables" / "cost.csv").set_index("arm")
    assert table.loc[run.arm, "metric_requests"] == table.loc["all arms", "metric_requests"] == 48
    assert table.loc["all arms", "judge_requests"] == 0
    page = (root / "tables" / "cost.html").read_text()
    assert "; requests of metrics: 48, with 480 tokens." in page
    assert "judge" not in page
