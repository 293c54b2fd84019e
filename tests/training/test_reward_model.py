"""A run with a reward model: a tracked model changes nothing, and the scores of a trained one move the run."""

import pandas as pd
import pytest

from models.reward_models import save_reward_model
from reward_ablation.models.reward_model_host import load_reward_models
from reward_ablation.rewards.components.reward_model import open_models_with, reward_model
from reward_ablation.spec.parts import ComponentSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

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
    assert sha256(tracked / "model/model.safetensors") == sha256(without / "model/model.safetensors")
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
    cut = pd.read_parquet(run / "metrics.parquet")[f"reward_model/cut/{component['parameters']['model']}"]
    assert 0 < cut.max() <= 1


def test_a_model_that_cannot_be_used_ends_the_run_before_anything_is_sampled(train, component, tmp_path):
    broken = {**component, "parameters": {**component["parameters"], "label": "kind"}}
    with pytest.raises(StudyError, match=r"^components\.taste: label: .* has one label"):
        train("run", components={"taste": broken}, weights={"taste": 1})
    assert not list((tmp_path / "run").rglob("*.parquet"))
