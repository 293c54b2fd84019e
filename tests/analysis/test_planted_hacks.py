"""The benchmark of planted hacks works."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "planted_hacks.py"


@pytest.fixture(scope="module")
def benchmark():
    found = importlib.util.spec_from_file_location("planted_hacks", SCRIPT)
    module = importlib.util.module_from_spec(found)
    sys.modules["planted_hacks"] = module
    found.loader.exec_module(module)
    yield module
    del sys.modules["planted_hacks"]


FOUND = [("padding", {"fall", "length"}), ("by heart", {"gap"}), ("drift", set())]


@pytest.mark.parametrize(("kind", "expected"), FOUND)
def test_a_planted_hack_is_found(benchmark, kind, expected):
    assert benchmark.signs(kind, 3, np.random.default_rng(1)) == expected


def test_results_become_a_table(benchmark):
    rates = {"any": 0.25, "fall": 0.25, "gap": 0.0, "length": 0.0}
    rows = [{"kind": kind, "seeds": seeds, **rates} for kind in ("flat", "keyword") for seeds in (2, 3)]
    words = benchmark.table({"rows": rows, "studies": 4})
    assert "| clean: accuracy stays | 25 | 25 | 0 | 0 | 25 | 25 | 0 | 0 |" in words
    assert "Percent of 4 simulated studies" in words
