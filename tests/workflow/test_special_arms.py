"""Arms with methods of combination, and an arm that diverges, in the real DAG."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from reward_ablation.study.run_folder import DIVERGED

from .conftest import TINY, Study, with_inputs_of
from .forks import BLANK

pytestmark = pytest.mark.slow

ALL = {"correctness": 1, "format": 1, "length": 1}
ARMS = {
    "static": {"weights": ALL},
    "gdpo": {"weights": ALL, "combine": "gdpo"},
    "upgrad": {"weights": ALL, "combine": {"method": "upgrad"}},
    "budget": {
        "weights": {"format": 1},
        "combine": {"method": "lagrangian", "at_least": {"length": 0.9}, "step_size": 0.5},
    },
    "high": {
        "weights": {"length": 1},
        "training": {"learning_rate": 1.0e20, "max_steps": 4, "lr_scheduler_type": "constant"},
    },
}


def one(pattern, study):
    [path] = study.results.glob(pattern)
    return path


@pytest.fixture(scope="module")
def started(finished, tmp_path_factory):
    """A study of these arms that was started twice: the first start fails, since an arm diverges."""
    arms = {"design": "list", "arms": ARMS}
    study = with_inputs_of(finished, Study(tmp_path_factory.mktemp("arms"), {**TINY, "arms": arms, "seeds": [0]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BLANK, "yes")
        assert study.snakemake("--keep-going").returncode == 1
        study.log = one("logs/train/high-*/seed0.log", study).read_text()
        assert len(list(study.results.glob("runs/*/*/run.json"))) == 4
        study.before = study.plan() + study.told("status")
        study.second = study.make()
    return study


def test_methods_weigh_the_components_and_are_in_tables_and_summary(started):
    weights = pd.read_parquet(one("runs/budget-*/seed0/weights.parquet", started))
    weights = weights.pivot(index="step", columns="component", values="weight")
    assert (weights["format"] == 1).all()
    assert weights["length"].is_monotonic_increasing
    assert weights["length"].iloc[-1] > 0
    summary = (started.results / "tables/summary.md").read_text()
    assert "| upgrad | lagged upgrad | 1 | 1 | 1 |" in summary
    assert "| gdpo | gdpo | 1 | 1 | 1 |" in summary
    by_step = pd.read_csv(started.results / "tables/method_weights.csv")
    assert set(by_step.arm) == {"upgrad", "budget"}
    for figure in ("method_weights", "methods_offline"):
        assert (started.results / f"figures/{figure}.txt").read_text()


def test_the_others_go_on_and_an_arm_that_diverges_is_named_and_left_out(started):
    assert started.log.count("error: training: diverged at step 2: ") == 1
    assert started.log.count("train: 4 steps") == 1  # not tried again
    assert "no training, 1 run: diverged at step 2, left out; to train it again, delete its folder" in started.before
    assert "0 of 5 runs to train" in started.before
    assert "1 diverged, 4 done" in started.before

    left_out = f"{one(f'runs/high-*/seed0/{DIVERGED}', started).parent.parent.name}/seed0"
    assert f"warning: diverged, and left out of evaluations, tables and figures: {left_out}" in started.second
    assert started.log == one("logs/train/high-*/seed0.log", started).read_text()
    tables = started.results / "tables"
    trained = {*ARMS} - {"high"}
    assert set(pd.read_csv(tables / "evaluation_by_arm.csv")["arm"]) == {"base"} | trained
    contrasts = pd.read_csv(tables / "paired_differences.csv").query("family == 'primary'")
    assert set(contrasts["arm"]) | set(contrasts["baseline"]) == trained
    for page in ("summary.md", "overview.html"):
        assert "high, seed 0, diverged at step 2." in (tables / page).read_text()
    assert started.planned() == {}


def test_a_record_of_divergence_counts_for_its_code_and_config_alone(started, tmp_path):
    study = started.copied(tmp_path / "copy")
    record = one(f"runs/high-*/seed0/{DIVERGED}", study)
    written = record.read_text()
    record.write_text(json.dumps({**json.loads(written), "code": "other"}))
    assert study.planned()["train"] == 1
    record.write_text(written)
    shutil.rmtree(record.parent)
    assert study.planned()["train"] == 1
