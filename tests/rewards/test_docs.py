"""The docs agree with the code: their worked examples run, and their table names every component."""

import doctest
import re
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from reward_ablation.rewards.load import component_names

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rewards.md"


def test_worked_examples():
    results = doctest.testfile(str(DOCS), module_relative=False)
    assert results.attempted >= 15
    assert results.failed == 0


@pytest.mark.parametrize("name", component_names())
def test_every_component_is_in_the_table_with_its_parameters_and_has_a_worked_example(name):
    text = DOCS.read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    function = getattr(import_module(f"reward_ablation.rewards.components.{name}"), name)
    parameters = [p.name for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert all(f"`{parameter}`" in rows[0][1] for parameter in parameters)
    assert re.search(rf"^>>> .*\b{name}\(", text, re.MULTILINE)
