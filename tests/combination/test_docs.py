"""The examples of docs/combinations.md run."""

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "combinations.md"


def test_examples_say_what_python_says():
    results = doctest.testfile(str(DOCS), module_relative=False)
    assert results.attempted > 0
    assert results.failed == 0
