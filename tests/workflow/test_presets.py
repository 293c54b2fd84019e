"""Presets: both forms plan their jobs, and TRL takes their settings; the small form runs to the last figure."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml

from public_data import data_file
from reward_ablation.start.config_files import from_working_folder
from reward_ablation.start.full_check import training_settings
from reward_ablation.start.model_files import check_settings
from reward_ablation.study.resolve import resolve

from .conftest import ROOT, Study

PRESETS = ["cs674", "four_rewards", "grpo_guide", "rldynamics", "simple_grpo"]
FORMS = [f"{preset}{form}" for preset in PRESETS for form in ("", "_small")]

#: In place of a small form's own values, which learn something and take longer.
SHORTER = {
    "grpo_guide": {"model.samples": 300, "model.steps": 30, "sft.training.num_train_epochs": 5},
    "four_rewards": {
        **{"seeds": [0], "model.steps": 30, "sft.training.max_steps": 20, "training.max_steps": 2},
        **{"gradients.every": 2, "evaluation.samples": 0},
    },
}


def config_of(name: str) -> dict:
    file = ROOT / "config" / "presets" / f"{name}.yaml"
    config = yaml.safe_load(file.read_text())
    from_working_folder(config, file, print, ROOT)
    return config


def with_local_data(value):
    """A config, or a part of it, with local copies of the hub's data and whole paths of the repository's files."""
    if isinstance(value, list):
        return [with_local_data(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("source") in ("gsm8k", "math"):
        return {**value, "path": str(data_file(f"{value['source']}_{value['split']}.jsonl"))}
    if value.get("source") == "math500":
        return {**value, "path": str(data_file("math500.jsonl"))}
    if value.get("source") == "file":
        return {**value, "path": str(ROOT / value["path"])}
    return {key: with_local_data(item) for key, item in value.items()}


@pytest.mark.parametrize("form", FORMS)
def test_a_preset_plans_its_jobs(form, tmp_path):
    study = Study(tmp_path, with_local_data(config_of(form)))
    planned = study.planned()
    runs = len(resolve({**study.config, "launch": {"gpus": 0}}, form, ROOT).runs)
    assert (planned["train"], planned["evaluate"], planned["evaluate_base"]) == (runs, runs, 1)
    assert planned.get("sft", 0) == ("sft" in study.config)


@pytest.mark.slow
def test_trl_takes_the_settings():
    """Of all presets, in one process; with vLLM or DeepSpeed only where they are installed."""
    settings = []
    for form in FORMS:
        config = config_of(form)
        for name in ("vllm", "strategy"):
            config["launch"].pop(name, None)
        if config["launch"]["gpus"] == "auto":
            config["launch"]["gpus"] = 1
        settings += training_settings(resolve(config, form, ROOT))
    check_settings(settings)


@pytest.fixture(scope="module")
def finished_preset(tmp_path_factory):
    """A small preset that has run to its last file, by name."""

    @cache
    def run(name: str) -> Study:
        study = Study(tmp_path_factory.mktemp(name), with_local_data(config_of(f"{name}_small")))
        for path, value in SHORTER.get(name, {}).items():
            study.set(path, value)
        study.make()
        return study

    return run


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
def test_the_small_preset_runs_to_the_last_figure(finished_preset, preset):
    study = finished_preset(preset)
    assert study.planned() == {}
    assert (study.results / "figures" / "all.pdf").stat().st_size > 10_000
    arms = resolve(study.config, preset, ROOT).arms
    assert len(list(study.results.glob("runs/*/seed0/run.json"))) == len(arms)


@pytest.mark.slow
@pytest.mark.long
def test_rldynamics_own_snippet_reads_whole_gradients(finished_preset):
    """The calls of its README, "Gradient Analysis Output"."""
    run = next(finished_preset("rldynamics").results.glob("runs/*/seed*"))
    data = np.load(run / "gradients_step_1.npz")
    length = {k: v for k, v in data.items() if k.startswith("length/")}
    similarity = pd.read_parquet(run / "gradients.parquet").query(
        "step == 1 and layer == 'all' and definition == 'alone' and component_a == component_b == 'length'"
    )
    norm = np.sqrt(sum((array.astype(float) ** 2).sum() for array in length.values()))
    assert norm == pytest.approx(similarity["norm_a"].item(), rel=1e-3)
