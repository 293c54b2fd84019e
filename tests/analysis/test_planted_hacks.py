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
