"""A warm-started model of demo size, demonstrations, and supervised starts on them in seconds."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from models.conftest import tiny_model  # noqa: F401
from reward_ablation.spec.run import SftSpec
from specs import ARM
from training.conftest import make_model, make_problems

SPEC = {
    "completion": ["{solution}", "so {answer}"],
    "training": {"max_steps": 4, "per_device_train_batch_size": 16, "learning_rate": 1e-3, "save_strategy": "no"},
    "data": ARM["data"],
    "prompt": ARM["prompt"],
    "lora": None,
    "seed": 0,
    "device": "cpu",
}


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("demo_model"))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    return make_problems(tmp_path_factory.mktemp("problems") / "sft.parquet")


@pytest.fixture
def start(demo_model, problems, tmp_path):
    """Make a supervised start in this process: `start(name, **changes of the spec)` gives the model's folder."""
    from reward_ablation.sft.demonstrations import read_demonstrations
    from reward_ablation.sft.fine_tune import fine_tune

    def run(name: str, callbacks=(), model=demo_model, **changes) -> Path:
        spec = copy.deepcopy(SPEC)
        for key, value in changes.items():
            spec[key] = {**spec[key], **value} if key == "training" else value
        whole, folder = SftSpec.read(spec), tmp_path / name / "base-01234567"
        demonstrations, work = read_demonstrations(problems, whole), tmp_path / name / "work"
        fine_tune(whole, model, problems, demonstrations, work, folder / "model.json", tuple(callbacks))
        return folder

    return run
