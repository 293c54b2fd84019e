"""A run with a reward model: a tracked model changes nothing, and the scores of a trained one move the run."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from models.reward_models import save_reward_model
from reward_ablation.config.sections.model import LocalModel
from reward_ablation.models.check import check_sequence_classifier
from reward_ablation.models.fetch import fetch
from reward_ablation.models.reward_model_host import load_reward_models
from reward_ablation.rewards.components.reward_model import open_models_with, reward_model
from reward_ablation.spec.parts import ComponentSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.run import train_run

from .conftest import job_of, spec_with

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    folder = save_reward_model(tmp_path_factory.mktemp("taste"))
    return {"function": "reward_model", "parameters": {"model": str(folder), "max_length": 64}}


@pytest.fixture(autouse=True)
def no_models():
    yield
    open_models_with(None)


def test_a_tracked_reward_model_leaves_the_run_as_it_is_bit_for_bit(train, trained, component):
    # Of the gradients the tracked component has rows of its own, so that nothing is measured here.
    without = trained(gradients={"every": 0})
    tracked = train("tracked", gradients={"every": 0}, components={"taste": component}, weights={"taste": 0})
    name = "model/model.safetensors"
    assert (tracked / name).read_bytes() == (without / name).read_bytes()
    one, other = (pd.read_parquet(run / "rollouts.parquet") for run in (without, tracked))
    pd.testing.assert_frame_equal(other[one.columns], one)
    assert other.score_taste.nunique() > 1


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
    metrics = pd.read_parquet(run / "metrics.parquet")
    cut = metrics[f"reward_model/cut/{component['parameters']['model']}"].dropna()
    assert cut.gt(0).any()
    assert cut.le(1).all()


def test_a_model_that_cannot_be_used_ends_the_run_before_anything_is_sampled(train, component, tmp_path):
    broken = {**component, "parameters": {**component["parameters"], "label": "kind"}}
    with pytest.raises(StudyError, match=r"^components\.taste: label: .* has one label"):
        train("run", components={"taste": broken}, weights={"taste": 1})
    assert not list((tmp_path / "run").rglob("*.parquet"))


def test_a_fetched_model_of_other_bytes_is_refused(train, component, tmp_path, demo_model, problems):
    folder = tmp_path / "reward"
    fetch(LocalModel(path=component["parameters"]["model"]), folder / "model.json", check_sequence_classifier)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    spec = spec_with(components={"taste": component}, weights={"taste": 1})
    models = {component["parameters"]["model"]: folder}
    with pytest.raises(StudyError, match=r"model\.safetensors: truncated or changed since it was written"):
        train_run(job_of(spec, tmp_path / "run" / "seed0", demo_model, problems, reward_models=models))
    assert json.loads((folder / "model.json").read_text())["architecture"] == "LlamaForSequenceClassification"
