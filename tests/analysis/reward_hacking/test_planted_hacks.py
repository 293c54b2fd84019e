"""The benchmark of planted hacks works: one run of each kind, without other packages."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "planted_hacks.py"


@pytest.fixture(scope="module")
def benchmark():
    found = importlib.util.spec_from_file_location("planted_hacks", SCRIPT)
    module = importlib.util.module_from_spec(found)
    sys.modules["planted_hacks"] = module
    found.loader.exec_module(module)
    yield module
    del sys.modules["planted_hacks"]


def test_a_planted_hack_is_found_where_it_is(benchmark):
    rng = np.random.default_rng(0)
    runs = [benchmark.simulated_run("padding", 40, rng) for _ in range(2)]
    onset, kinds = benchmark.by_this_table(runs, 40)
    assert {"fall", "length"} <= kinds
    assert abs(onset - 21) <= 5
    assert abs(benchmark.by_former_rule(runs, 40) - 21) <= 8


def test_simulated_runs_are_as_the_demos(benchmark):
    """A step's accuracy has a standard deviation of .1 about its trend there, and its lengths one of 1 to 1.8."""
    run = benchmark.simulated_run("drift", 200, np.random.default_rng(0)).rollouts
    right = run.groupby("step")["correctness"].mean()
    assert 0.06 < right.diff().std() / 2**0.5 < 0.12
    assert 0.3 < run.groupby("step")["tokens"].mean().diff().std() / 2**0.5 < 1.8
    assert right.iloc[:20].mean() == pytest.approx(0.27, abs=0.06)


def test_results_become_tables(benchmark):
    rows = [
        {
            "kind": kind,
            "steps": 40,
            "seeds": 1,
            "method": method,
            "arms": 4,
            "rate": 0.25,
            "error": error,
            "near": error,
        }
        | {"parts": {"fall": 0.25}}
        for kind, error in (("flat", None), ("keyword", 1.0))
        for method in ("this table", "former rule", "rewardspy")
    ]
    noise = [{"steps": 40, "seeds": 1, "coefficient": value, "table": 0.05, "former": 0.45} for value in (0.6, 1.0)]
    words = benchmark.table({"rows": rows, "noise": noise, "rewardspy": True})
    assert "| 25 | 25 | 25 |" in words
    assert "25 (+1; 100)" in words
    assert "| 40 | 1 | 5 (45) | 5 (45) |" in words
