"""A study with metrics of its own on finished runs: nothing is trained again."""

import json
import re
import shutil

import pandas as pd
import pytest

from endpoint import endpoint, says
from models.reward_models import save_reward_model
from reward_ablation.models.reward_model import host_reward_models
from reward_ablation.rewards.components.reward_model import open_models_with
from reward_ablation.rewards.load import load_component
from reward_ablation.study.resolve import resolve
from reward_ablation.system.digests import folder_fingerprint

from .conftest import Study, jobs_of

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
    shutil.copytree(finished.folder, tmp_path / "own")
    return Study(tmp_path / "own", finished.config)


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
    result = study.snakemake("--", target)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "train" not in jobs_of(result.stdout + result.stderr)

    summary = (study.results / "tables/summary.md").read_text()
    assert "test, greedy, passes (table `paired_differences`)" in summary
    assert "## Effects of the components on passes" in summary
    assert "11 questions; left out, because a metric gave no score to an answer: 1" in summary
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
    again = study.planned(target)
    assert again["score"] == 1 + len(list(study.results.glob("runs/*/seed*")))
    assert not {"train", "evaluate", "evaluate_base"} & again.keys()

    # So does other code, also where it prepares the evaluation set anew.
    (study.folder / "own.py").write_text(OWN)
    for record in study.results.glob("scores/**/*.json"):
        record.write_text(json.dumps({**json.loads(record.read_text()), "code": "other"}))
    for record in study.results.glob("data/evaluation/*.json"):
        record.write_text(json.dumps({**json.loads(record.read_text()), "code": "other"}))
    prepared = study.planned(target)
    assert (prepared["score"], prepared["prepare_evaluation"]) == (again["score"], 1)


@pytest.mark.long
def test_a_reward_model_judges_stored_answers(study):
    model = save_reward_model(study.folder / "taste rm")
    parameters = {"model": "taste rm", "max_length": 64}
    study.config["evaluation"]["metrics"] = {"taste": {"function": "reward_model", "parameters": parameters}}
    runs = len(list(study.results.glob("runs/*/seed*")))
    plan = study.command("plan", "--quick")
    assert f": 0 of {runs} runs to train, {runs + 1} files of answers to score\n" in plan.stdout, plan.stderr
    scores = "results/tiny/" + resolve(study.config, "config.yaml", study.folder).scores[0]
    result = study.snakemake("--", scores)
    assert result.returncode == 0, result.stdout + result.stderr
    assert jobs_of(result.stdout + result.stderr) == {"fetch_reward_model": 1, "score": 1, "total": 2}

    [file] = study.results.glob("evaluation/*/base/*.parquet")
    answers, [problems] = pd.read_parquet(file), study.results.glob("data/evaluation/*.parquet")
    questions = pd.read_parquet(problems).set_index("id")["question"][answers["problem_id"]]
    host_reward_models("cpu")
    try:
        taste = load_component("reward_model", {**parameters, "model": str(model)}, study.folder)
        expected = taste(answers["completion"].tolist(), question=questions.tolist())
    finally:
        open_models_with(None)
    assert pd.read_parquet(study.folder / scores)["taste"].tolist() == pytest.approx(expected, abs=1e-6)

    # Scores need the fetched model no more; other weights are fetched and score again, and nothing else is made.
    shutil.rmtree(next(study.results.glob("models/reward-*")))
    assert study.planned(scores) == {}
    content = bytearray((model / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (model / "model.safetensors").write_bytes(content)
    folder_fingerprint.cache_clear()
    again = "results/tiny/" + resolve(study.config, "config.yaml", study.folder).scores[0]
    assert again != scores
    assert study.planned(again) == {"fetch_reward_model": 1, "score": 1, "total": 2}


def test_requests_of_a_judge_that_is_a_metric_are_told_and_in_the_cost_table(study):
    (study.folder / "judge.txt").write_text("{question} {completion}")
    with endpoint(lambda request: says({"score": len(request.prompt) % 2})) as server:
        parameters = {"model": "m", "template": "judge.txt", "endpoint": server.url}
        study.config["evaluation"]["metrics"] = {"helpful": {"function": "judge", "parameters": parameters}}
        result = study.snakemake("--", "results/tiny/tables/cost.csv")
    printed = result.stdout + result.stderr
    assert result.returncode == 0, printed
    runs = len(list(study.results.glob("runs/*/seed*")))
    # One greedy answer and two samples.
    told = f"helpful: asks an endpoint about each answer: at most 3 to each question, of {runs + 1} models"
    assert printed.index(told) < printed.index("score the answers of ")
    assert f"study tiny: {runs + 1} files of answers to score, by the metric helpful\n" in printed
    records = [json.loads(path.read_text())["requests"]["m"] for path in study.results.glob("scores/**/*.json")]
    assert sum(record["requests"] for record in records) == len(server.requests) > 0
    [of_base] = study.results.glob("scores/*/base/*.json")
    base = json.loads(of_base.read_text())["requests"]["m"]["requests"]
    cost = pd.read_csv(study.results / "tables/cost.csv").set_index("arm").loc["all arms"]
    assert cost["metric_requests"] == len(server.requests) - base
    assert cost["metric_prompt_tokens"] == 10 * cost["metric_requests"]
    assert cost["judge_requests"] == 0
