"""Arms with methods of combination in the real DAG: their weights, tables, figures and summary."""

import copy

import pandas as pd
import pytest

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

ARMS = {
    "static": {"weights": {"correctness": 1, "format": 1, "length": 1}},
    "gdpo": {"weights": {"correctness": 1, "format": 1, "length": 1}, "combine": "gdpo"},
    "upgrad": {"weights": {"correctness": 1, "format": 1, "length": 1}, "combine": {"method": "upgrad"}},
    "budget": {
        "weights": {"format": 1},
        "combine": {"method": "lagrangian", "at_least": {"length": 0.9}, "step_size": 0.5},
    },
}


@pytest.mark.usefixtures("_blank_figures")
def test_a_study_of_methods_from_runs_to_summary(finished, tmp_path):
    config = copy.deepcopy(TINY)
    config["arms"]["arms"] = ARMS
    config["seeds"] = [0]
    study = with_inputs_of(finished, Study(tmp_path, config))
    targets = [f"results/tiny/figures/{name}.pdf" for name in ("method_weights", "methods_offline")]
    result = study.snakemake("--", *targets, "results/tiny/tables/summary.md")
    assert result.returncode == 0, result.stdout + result.stderr

    with_methods = {path.parts[-3].split("-")[0] for path in study.results.glob("runs/*/*/weights.parquet")}
    assert with_methods == {"upgrad", "budget"}
    [run] = study.results.glob("runs/budget-*/seed0")
    weights = pd.read_parquet(run / "weights.parquet").pivot(index="step", columns="component", values="weight")
    assert (weights["format"] == 1).all()
    assert weights["length"].is_monotonic_increasing
    assert weights["length"].iloc[-1] > 0
    summary = (study.results / "tables/summary.md").read_text()
    assert "| upgrad | lagged upgrad | 1 | 1 | 1 |" in summary
    assert "| gdpo | gdpo | 1 | 1 | 1 |" in summary
    by_step = pd.read_csv(study.results / "tables/method_weights.csv")
    assert set(by_step.arm) == {"upgrad", "budget"}
    assert (study.results / "figures/method_weights.txt").read_text()

    # A parameter of one method is of that arm alone.
    study.config["arms"]["arms"]["budget"]["combine"]["step_size"] = 0.25
    assert study.planned("results/tiny/tables/summary.md")["train"] == 1
