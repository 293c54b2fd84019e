"""A reward model as a metric: its scores are those of the component, and each model is loaded once."""

from pathlib import Path

import pytest

from models.reward_models import save_reward_model
from reward_ablation.config.sections.model import LocalModel
from reward_ablation.models.check import check_sequence_classifier
from reward_ablation.models.fetch import fetch
from reward_ablation.rewards.components.reward_model import open_models_with, reward_model
from reward_ablation.scores.models import load_models
from reward_ablation.spec.run import ScoresSpec
from reward_ablation.system.errors import StudyError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_reward_model(tmp_path_factory.mktemp("taste"))


@pytest.fixture(autouse=True)
def no_models():
    yield
    open_models_with(None)


def test_stored_answers_get_the_scores_of_the_component(stored, folder, capsys):
    parameters = {"model": str(folder), "max_length": 40}
    scores = stored.score({"taste": ("reward_model", parameters), "flat": ("constant", {})})["taste"].tolist()
    assert "taste: 4 of 4 inputs were cut to max_length" in capsys.readouterr().out
    # The models of the job are still there.
    assert scores == reward_model(stored.completions, stored.problems["question"].tolist(), **parameters)
    assert len(set(scores)) == 4


def test_what_is_wrong_with_a_model_is_told_of_its_metric(stored, folder):
    with pytest.raises(StudyError, match=r"^evaluation\.metrics\.taste: label: .* has one label"):
        stored.score({"taste": ("reward_model", {"model": str(folder), "label": "kind"})})
    assert not (stored.folder / "scores.parquet").exists()


def test_a_fetched_model_of_other_bytes_is_refused(folder, tmp_path):
    fetched = tmp_path / "reward"
    fetch(LocalModel(path=str(folder)), fetched / "model.json", check_sequence_classifier)
    content = bytearray((fetched / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (fetched / "model.safetensors").write_bytes(content)
    metric = {"function": "reward_model", "parameters": {"model": str(folder)}}
    spec = ScoresSpec.read({"metrics": {"taste": metric}, "device": "cpu"})
    with pytest.raises(StudyError, match=r"model\.safetensors: truncated or changed since it was written"):
        load_models(spec, {}, {str(folder): Path(fetched)})


def test_without_a_gpu_a_study_with_gpus_is_told_so_before_anything_is_scored(stored, folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(StudyError, match=r"^launch\.gpus: "):
        stored.score({"taste": ("reward_model", {"model": str(folder)})}, device="cuda")
    assert stored.score({"flat": ("constant", {})}, device="cuda")["flat"].notna().all()
