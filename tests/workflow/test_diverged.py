"""A study with an arm that diverges: the others go on, and the arm is named and left out."""

from __future__ import annotations

import copy
import json
import shutil

import pandas as pd
import pytest

from reward_ablation.study.run_folder import DIVERGED

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow


def one(pattern, study):
    """The only file of a study that matches a pattern."""
    [path] = study.results.glob(pattern)
    return path


@pytest.mark.usefixtures("_blank_figures")
def test_a_study_goes_on_without_an_arm_that_diverges(finished, tmp_path):
    config = copy.deepcopy(TINY)
    config["seeds"] = [0]
    config["arms"]["arms"]["high"] = {
        "weights": {"length": 1},
        "training": {"learning_rate": 1.0e20, "max_steps": 4, "lr_scheduler_type": "constant"},
    }
    study = with_inputs_of(finished, Study(tmp_path / "study", config))
    first = study.snakemake("--keep-going")
    assert first.returncode == 1
    log = one("logs/train/high-*/seed0.log", study).read_text()
    assert log.count("error: training: diverged at step 2: ") == 1
    assert log.count("train: 4 steps") == 1  # not tried again
    assert len(list(study.results.glob("runs/*/*/run.json"))) == 2
    record = one(f"runs/high-*/seed0/{DIVERGED}", study)

    plan = study.command("plan", "--quick").stdout
    assert "no training, 1 run: diverged at step 2, left out; to train it again, delete its folder" in plan
    assert "0 of 3 runs to train" in plan
    status = study.command("status").stdout
    assert "1 diverged, 2 done" in status

    second = study.snakemake()
    told = second.stdout + second.stderr
    assert second.returncode == 0, told
    assert (
        f"warning: diverged, and left out of evaluations, tables and figures: {record.parent.parent.name}/seed0" in told
    )
    assert log == one("logs/train/high-*/seed0.log", study).read_text()
    tables = study.results / "tables"
    by_arm = pd.read_csv(tables / "evaluation_by_arm.csv")
    assert set(by_arm["arm"]) == {"base", "length", "mixed"}
    contrasts = pd.read_csv(tables / "paired_differences.csv").query("family == 'primary'")
    assert set(contrasts["arm"]) | set(contrasts["baseline"]) == {"length", "mixed"}
    for page in ("summary.md", "overview.html"):
        assert "high, seed 0, diverged at step 2." in (tables / page).read_text()
    assert study.planned() == {}

    # The record of other code, or of another config, counts no more.
    written = record.read_text()
    record.write_text(json.dumps({**json.loads(written), "code": "other"}))
    assert study.planned()["train"] == 1
    record.write_text(written)
    study.config["arms"]["arms"]["high"]["training"]["learning_rate"] = 1.0e-3
    assert study.planned()["train"] == 1
    study.config = config
    shutil.rmtree(record.parent)
    assert study.planned()["train"] == 1
