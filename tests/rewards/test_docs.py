"""The worked examples of the docs are what the code does."""

import doctest
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rewards.md"


def test_worked_examples():
    results = doctest.testfile(str(DOCS), module_relative=False)
    assert results.attempted >= 15
    assert results.failed == 0
