"""Presets: both forms plan their jobs, and TRL takes their settings; the small form runs to the last figure.

On each commit one small form runs as far as its tables. It has a supervised start, KL, adapters and a user's file.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml

from configs import changed
from public_data import data_file
from reward_ablation.start.config_files import from_working_folder
from reward_ablation.start.full_check import training_settings
from reward_ablation.start.model_files import check_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import sha256

from .conftest import ROOT, Study

PRESETS = ["cs674", "four_rewards", "grpo_guide", "rldynamics", "simple_grpo"]

#: In place of a small form's own values, which learn something and take longer.
SHORTER = {
    "grpo_guide": {"model/samples": 300, "model/steps": 30, "sft/training/num_train_epochs": 5},
    "four_rewards": {
        "seeds": [0],
        "model/steps": 30,
        "sft/training/max_steps": 20,
        "training/max_steps": 2,
        "gradients/every": 2,
        "evaluation/samples": 0,
    },
}

each_preset = pytest.mark.parametrize("preset", PRESETS)


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


@each_preset
@pytest.mark.parametrize("form", ["", "_small"], ids=["full", "small"])
def test_a_preset_plans_its_jobs(preset, form, tmp_path):
    study = Study(tmp_path, with_local_data(config_of(preset + form)))
    planned = study.planned()
    runs = len(resolve({**study.config, "launch": {"gpus": 0}}, preset, ROOT).runs)
    assert planned["train"] == runs
    assert (planned["evaluate"], planned["evaluate_base"]) == (runs, 1)
    assert planned.get("sft", 0) == ("sft" in study.config)


@pytest.mark.slow
def test_trl_takes_the_settings():
    """Of all presets, in one process; with vLLM or DeepSpeed only where they are installed."""
    settings = []
    for preset in [*PRESETS, *(f"{name}_small" for name in PRESETS)]:
        config = config_of(preset)
        for name in ("vllm", "strategy"):
            config["launch"].pop(name, None)
        if config["launch"]["gpus"] == "auto":
            config["launch"]["gpus"] = 1
        settings += training_settings(resolve(config, preset, ROOT))
    check_settings(settings)


@pytest.fixture(scope="module")
def finished_preset(tmp_path_factory):
    """A small preset that has run, by name: to its last file, or as far as the tables."""
    folder = cache(tmp_path_factory.mktemp)

    def run(name: str, *, tables: bool = False) -> Study:
        config = with_local_data(config_of(f"{name}_small"))
        for path, value in SHORTER.get(name, {}).items():
            changed(config, path, value)
        study = Study(folder(name), config)
        targets = [str((study.results / "tables" / "summary.md").relative_to(study.folder))] if tables else []
        result = study.snakemake("--", *targets)
        assert result.returncode == 0, result.stdout + result.stderr
        return study

    return run


@pytest.mark.slow
@pytest.mark.long
@each_preset
def test_the_small_preset_runs_to_the_last_figure(finished_preset, preset):
    study = finished_preset(preset)
    assert study.planned() == {}
    assert (study.results / "figures" / "all.pdf").stat().st_size > 10_000
    arms = resolve(study.config, preset, ROOT).arms
    assert len(list(study.results.glob("runs/*/seed0/run.json"))) == len(arms)


@pytest.mark.slow
@pytest.mark.long
def test_the_guides_shape_reaches_the_runs(finished_preset):
    """Its JSON by a map of columns, a supervised start that is evaluated as base, KL against it, adapters."""
    study = finished_preset("grpo_guide", tables=True)
    resolved = resolve(study.config, "small", study.folder)
    demonstrations = pd.read_parquet(study.results / resolved.demonstrations_file)
    assert demonstrations["answer"].tolist()[:2] == ["7", "96"]
    assert demonstrations["solution"][0] == "3 * 4 = 12 pens. 12 - 5 = 7 pens."
    start = study.results / resolved.model_file
    record = json.loads(start.read_text())
    assert (record["source"], record["id"]) == ("sft", "demo")
    assert len(list((study.results / resolved.answers_folder / "base").glob("gsm8k_test-*.parquet"))) == 1
    for run in study.results.glob("runs/*/*"):
        record = json.loads((run / "run.json").read_text())
        assert record["inputs"]["model"] == sha256(start)
        assert (run / "model" / "adapter_model.safetensors").is_file()
        assert "kl" in pd.read_parquet(run / "metrics.parquet")
        rollouts = pd.read_parquet(run / "rollouts.parquet")
        assert rollouts.groupby(["step", "problem_id"]).size().eq(2).all()
        assert set(rollouts["score_verifier"]) <= {1.0, -1.0, -0.5}


@pytest.mark.slow
@pytest.mark.long
def test_the_labs_arms_differ_in_their_groups_alone(finished_preset):
    study = finished_preset("cs674")
    for arm, group in (("ppo", 1), ("grpo_2", 2), ("grpo_3", 3)):
        (run,) = study.results.glob(f"runs/{arm}-*/seed0")
        rollouts = pd.read_parquet(run / "rollouts.parquet")
        assert rollouts.groupby(["step", "problem_id"]).size().eq(group).all()
        assert rollouts.groupby("step").size().eq(24).all()  # two steps on each generation of 24
        if arm == "ppo":
            assert rollouts["advantage"].to_numpy() == pytest.approx(rollouts["total"].to_numpy())


@pytest.mark.slow
@pytest.mark.long
def test_rldynamics_own_snippet_reads_whole_gradients(finished_preset):
    """The calls of its README, "Gradient Analysis Output"."""
    runs = sorted(finished_preset("rldynamics").results.glob("runs/*/seed*"))
    assert len(runs) == 5
    for run in runs:
        data = np.load(run / "gradients_step_1.npz")
        length = {k: v for k, v in data.items() if k.startswith("length/")}
        similarity = pd.read_parquet(run / "gradients.parquet").query(
            "step == 1 and layer == 'all' and definition == 'alone' and component_a == component_b == 'length'"
        )
        norm = np.sqrt(sum((array.astype(float) ** 2).sum() for array in length.values()))
        assert norm == pytest.approx(similarity["norm_a"].item(), rel=1e-3)
