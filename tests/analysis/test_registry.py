"""The registry of tables: an incomplete entry is reported in words."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from analysis.all_tables import command
from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.registry import OF_TIMES, RULES, TABLES, file_of, files_of, module_of
from reward_ablation.report.summary import TABLES as SUMMARY_TABLES

ROOT = Path(__file__).parents[2]
REGISTRY = "RULES in workflow/reward_ablation/analysis/registry.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Tables of a made-up study, by the commands of all rules."""
    root = tmp_path_factory.mktemp("study")
    MadeUpStudy(arms={"one": {"a": 1.0}, "two": {"a": 2.0}}, steps=2, rollouts=4).write(root)
    for rule in RULES:
        command(rule, root, root / "tables")
    return root / "tables"


def schemas_of(rule: str) -> dict:
    return import_module(f"reward_ablation.{RULES[rule].module}.tables").SCHEMAS


@pytest.mark.parametrize("rule", RULES)
def test_a_table_with_columns_is_in_the_registry(rule):
    for table in schemas_of(rule):
        assert TABLES.get(table) == rule, (
            f"table {table} has columns in {RULES[rule].module}/tables.py, and no rule: add it to {rule} of {REGISTRY}"
        )


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_the_registry_has_columns(table):
    schemas = f"{module_of(table).replace('.', '/')}/tables.py"
    assert table in schemas_of(TABLES[table]), (
        f"table {table} is in {REGISTRY}, and has no columns: add {table} to SCHEMAS in {schemas}"
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_the_registry_is_made_by_its_rule(folder, table):
    assert (folder / file_of(table)).is_file(), (
        f"table {table} is in {REGISTRY}, and `python -m reward_ablation.{module_of(table)}` does not write it: "
        f"add its rows to what {module_of(table).replace('.', '/')}/tables.py returns"
    )


def test_what_the_commands_write_is_in_the_registry(folder):
    for path in folder.glob("*.csv"):
        assert path.stem in TABLES, f"table {path.stem} is written, and no rule declares it: add it to {REGISTRY}"
    declared = {file for rule in RULES for file in files_of(rule)}
    assert {path.name for path in folder.iterdir() if path.suffix != ".html"} == declared | {"runs.sha256"}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_the_registry_is_one_of_the_workflow(rule):
    text = (ROOT / "workflow" / "rules" / "tables.smk").read_text()
    found = re.search(rf"^rule tables_{rule}:\n(.*?)(?=^rule |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"rule {rule} is in {REGISTRY}: add `rule tables_{rule}` to workflow/rules/tables.smk"
    module = RULES[rule].module
    for part in (f'files_of("{rule}")', f'code_of("{module}")', f"-m reward_ablation.{module} "):
        assert part in found[1], f"rule tables_{rule} in workflow/rules/tables.smk lacks {part}"


def test_the_summary_and_its_rule_read_tables_of_the_registry():
    assert set(SUMMARY_TABLES) <= set(TABLES) - OF_TIMES
    rule = (ROOT / "workflow" / "rules" / "report.smk").read_text()
    listed = re.search(r"^SUMMARY_TABLES = \[(.*?)\]", rule, re.DOTALL | re.MULTILINE)
    assert re.findall(r'"(\w+)"', listed[1]) == SUMMARY_TABLES


def test_a_table_has_one_rule():
    assert sum(len(rule.tables) for rule in RULES.values()) == len(TABLES)


def test_a_start_of_the_workflow_loads_no_table_library():
    code = "import sys, reward_ablation.analysis.registry; print({'pandas', 'pyarrow', 'numpy'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
