"""A reward model in the real DAG: fetched once, before the runs that it scores, and never for other runs."""

from __future__ import annotations

import copy
import json

import pandas as pd
import pytest

from models.reward_models import save_reward_model

from .conftest import TINY, Study, with_inputs_of

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_reward_model_is_fetched_and_scores_its_arms(finished, tmp_path):
    config = copy.deepcopy(TINY)
    parameters = {"model": "models/taste rm", "max_length": 64}
    config["components"]["taste"] = {"function": "reward_model", "parameters": parameters, "scored": "where_trained"}
    config["arms"]["arms"] = {"length": {"weights": {"length": 1}}, "taste": {"weights": {"taste": 1}}}
    config["seeds"] = [0]
    study = with_inputs_of(finished, Study(tmp_path, config))
    save_reward_model(tmp_path / "models" / "taste rm")
    assert study.planned().items() >= {"fetch_reward_model": 1, "train": 2}.items()
    study.make("--until", "train")
    [folder] = study.results.glob("models/reward-*")
    assert json.loads((folder / "model.json").read_text())["architecture"] == "LlamaForSequenceClassification"
    [run] = study.results.glob("runs/taste-*/seed0")
    assert pd.read_parquet(run / "rollouts.parquet").score_taste.nunique() > 1
    [other] = study.results.glob("runs/length-*/seed0")
    assert "score_taste" not in pd.read_parquet(other / "rollouts.parquet").columns

    # Finished runs need the model no more.
    for file in ("model.safetensors", "model.json"):
        (folder / file).unlink()
    assert "train" not in study.planned()
    weights = tmp_path / "models" / "taste rm" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert study.planned().items() >= {"fetch_reward_model": 1, "train": 1}.items()
