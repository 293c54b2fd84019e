"""The presets: the small form runs to all figures and to its exports, the full one is planned."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from exports import as_published

from .conftest import ROOT, Study

COPIES = ROOT.parent / "shared" / "data"
PRESETS = ["rldynamics", "simple_grpo"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not COPIES.is_dir(), reason="no copies of GSM8K and MATH beside the repository"),
]


def small(name: str) -> dict:
    """The small form of a preset, its data from the copies instead of the hub."""
    config = yaml.safe_load((ROOT / "config" / "presets" / f"{name}_small.yaml").read_text())
    for source in (config["data"]["train"], *config["data"]["evaluation"].values()):
        file = "math500" if source["source"] == "math500" else f"{source['source']}_{source['split']}"
        source["path"] = str(COPIES / f"{file}.jsonl")
    return config


@pytest.fixture(scope="module", params=PRESETS)
def preset(request, tmp_path_factory):
    """The small form of a preset after a whole run."""
    study = Study(tmp_path_factory.mktemp(request.param), small(request.param))
    result = study.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    return study


def test_the_small_form_runs_to_all_figures_and_exports(preset):
    assert (preset.results / "figures" / "all.pdf").stat().st_size > 10_000
    for layout in preset.config.get("exports", []):
        CHECKS[layout](preset)
    assert preset.planned() == {}


def check_rldynamics(preset):
    exports = sorted(preset.results.glob("exports/rldynamics/*/seed*"))
    assert len(exports) == 4
    for folder in exports:
        run = preset.results / "runs" / folder.relative_to(preset.results / "exports" / "rldynamics")
        rollouts = pd.read_parquet(run / "rollouts.parquet")
        lengths = rollouts["completion"].str.len().groupby(rollouts["step"]).mean()
        trends = as_published.trends(folder / "all_rewards.json")
        assert trends["avg_actual_length"] == pytest.approx(list(lengths))
        gradients = as_published.gradients(folder / "gradients_step_0.npz")
        similarity = pd.read_parquet(run / "gradients.parquet").query(
            "step == 1 and layer == 'all' and definition == 'alone' and component_a == component_b == 'length'"
        )
        norm = np.sqrt(sum((array.astype(float) ** 2).sum() for array in gradients["length"].values()))
        assert norm == pytest.approx(similarity["norm_a"].item(), rel=1e-3)


def check_simple_grpo(preset):
    exports = sorted(preset.results.glob("exports/simple_grpo/*/seed*"))
    assert len(exports) == 2
    for folder in exports:
        accuracy = as_published.accuracy_of_prompts(folder / "rollouts.jsonl")
        assert {step for _, step in accuracy} == {0, 1, 2}
        assert len(accuracy) == 6  # two prompts a step
        summary = json.loads((folder / "evaluation.json").read_text())
        for moment in ("before", "after"):
            lines = (folder / f"eval_{moment}_gsm8k_test.jsonl").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            assert len(rows) == 8
            assert summary[moment]["gsm8k_test"]["eval_accuracy"] == sum(row["correct"] for row in rows) / 8


CHECKS = {"rldynamics": check_rldynamics, "simple_grpo": check_simple_grpo}


@pytest.mark.parametrize("name", PRESETS)
def test_the_full_form_is_planned(name, tmp_path):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--dry-run", "--configfile", str(ROOT / "config" / "presets" / f"{name}.yaml")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    table = {row[0]: row[1] for row in (line.split() for line in result.stdout.splitlines()) if len(row) == 2}
    config = yaml.safe_load((ROOT / "config" / "presets" / f"{name}.yaml").read_text())
    for layout in config.get("exports", []):
        assert table[f"export_{layout}"] == table["train"]
