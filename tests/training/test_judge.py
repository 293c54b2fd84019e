"""Runs with a judge or a reward model: requests are counted and answers kept; a tracked model changes nothing."""

import json
import shutil

import pandas as pd
import pytest

from endpoint import endpoint, says
from models.reward_models import save_reward_model
from reward_ablation.models.reward_model_host import load_reward_models
from reward_ablation.rewards.components.reward_model import open_models_with, reward_model
from reward_ablation.spec.parts import ComponentSpec
from reward_ablation.study.specs_of_config import divide
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around.run import train_run

from .conftest import job_of, spec_with

STEPS, BATCH = 3, 8


@pytest.fixture
def judged(demo_model, problems, tmp_path):
    """Trains a run on a judge at a URL, in a results folder."""
    template = tmp_path / "judge.txt"
    template.write_text("{question} {completion}")

    def judged(url, arm):
        parameters = {"model": "judge-1", "template": str(template), "endpoint": url, "retries": 0}
        divided = divide("judge", parameters, tmp_path)
        component = {"function": "judge", "parameters": divided.deciding, "contents": divided.contents}
        spec = spec_with(components={"helpful": component}, weights={"helpful": 1}, training={"max_steps": STEPS})
        folder = tmp_path / "results" / "runs" / arm / "seed0"
        train_run(job_of(spec, folder, demo_model, problems, parameters={"helpful": divided.others}))
        return folder

    return judged


def by_length(request):
    return says({"score": min(1.0, len(request.prompt) / 500)})


def test_requests_are_counted_and_no_completion_is_judged_twice(judged):
    with endpoint(by_length) as server:
        first = judged(server.url, "a")
        asked = len(server.requests)
        again = judged(server.url, "b")
        assert len(server.requests) == asked
    counts = [json.loads((run / "run.json").read_text())["requests"]["judge-1"] for run in (first, again)]
    assert 0 < asked <= STEPS * BATCH
    assert (counts[0]["requests"], counts[0]["prompt_tokens"], counts[0]["unanswered"]) == (asked, 10 * asked, 0)
    assert (counts[1]["requests"], counts[1]["kept"]) == (0, counts[0]["requests"] + counts[0]["kept"])
    for file in ("rollouts.parquet", "model/model.safetensors"):
        assert sha256(first / file) == sha256(again / file)
    assert pd.read_parquet(first / "rollouts.parquet").score_helpful.nunique(dropna=False) > 1


def test_a_run_whose_endpoint_was_gone_asks_only_what_was_not_answered(judged, tmp_path):
    def fails_late(request):
        if request.number >= 2 * BATCH:
            return says("", status=503)
        return by_length(request)

    told = r"components\.helpful: endpoint: answered none"
    with endpoint(fails_late) as server, pytest.raises(StudyError, match=told):
        judged(server.url, "a")
    with endpoint(by_length) as server:
        resumed = judged(server.url, "a")
        assert len(server.requests) <= BATCH  # of the step without an answer
    shutil.rmtree(tmp_path / "results" / "judge")
    with endpoint(by_length) as server:
        whole = judged(server.url, "b")
    assert sha256(resumed / "rollouts.parquet") == sha256(whole / "rollouts.parquet")


@pytest.fixture
def component(tmp_path):
    folder = save_reward_model(tmp_path / "taste")
    yield {"function": "reward_model", "parameters": {"model": str(folder), "max_length": 64}}
    open_models_with(None)


@pytest.mark.slow
def test_a_tracked_reward_model_leaves_the_run_as_it_is_bit_for_bit(train, trained, component):
    # Of the gradients the tracked component has rows of its own, so that nothing is measured here.
    without = trained(gradients={"every": 0})
    tracked = train("tracked", gradients={"every": 0}, components={"taste": component}, weights={"taste": 0})
    assert sha256(tracked / "model/model.safetensors") == sha256(without / "model/model.safetensors")
    one, other = (pd.read_parquet(run / "rollouts.parquet") for run in (without, tracked))
    pd.testing.assert_frame_equal(other[one.columns], one)
    assert other.score_taste.nunique() > 1


@pytest.mark.slow
def test_a_reward_model_trains_a_run(train, component, problems):
    weights = {"correctness": 0, "format": 0, "length": 0, "taste": 1}
    run = train("run", components={"taste": component}, weights=weights)
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    questions = pd.read_parquet(problems).set_index("id").question
    load_reward_models({"taste": ComponentSpec(**component, placement="all_tokens")}, {}, {}, "cpu")
    texts = rollouts.completion.tolist(), questions[rollouts.problem_id].tolist()
    expected = reward_model(*texts, **component["parameters"])
    assert rollouts.score_taste.tolist() == pytest.approx(expected, abs=1e-5)
    assert rollouts.total.to_numpy() == pytest.approx(rollouts.score_taste.to_numpy(), abs=1e-5)
    gradients = pd.read_parquet(run / "gradients.parquet")
    assert gradients[(gradients.component_a == "taste") & (gradients.component_b == "taste")]["dot"].max() > 0
    cut = pd.read_parquet(run / "metrics.parquet")[f"reward_model/cut/{component['parameters']['model']}"]
    assert 0 < cut.max() <= 1


@pytest.mark.slow
def test_a_model_that_cannot_be_used_ends_the_run_before_anything_is_sampled(train, component, tmp_path):
    broken = {**component, "parameters": {**component["parameters"], "label": "kind"}}
    with pytest.raises(StudyError, match=r"^components\.taste: label: .* has one label"):
        train("run", components={"taste": broken}, weights={"taste": 1})
    assert not list((tmp_path / "run").rglob("*.parquet"))
