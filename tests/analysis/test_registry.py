"""The registry of tables, the modules that write them, and the rules of the workflow name the same tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.made_up import SCHEMAS, MadeUpStudy, write_tables
from reward_ablation.analysis.registry import OF_TIMES, RULES, TABLES, files_of
from reward_ablation.report.summary import TABLES as SUMMARY_TABLES

RULES_OF_SNAKEMAKE = Path(__file__).parents[2] / "workflow" / "rules"
REGISTRY = "RULES in workflow/reward_ablation/analysis/registry.py"


def test_each_table_has_columns_and_one_rule_that_writes_it(tmp_path):
    assert set(SCHEMAS) == set(TABLES), f"SCHEMAS of the rules' modules and {REGISTRY} name different tables"
    assert sum(len(rule.tables) for rule in RULES.values()) == len(TABLES)
    MadeUpStudy(arms={"one": {"a": 1.0}, "two": {"a": 2.0}}, steps=2, rollouts=4).write(tmp_path)
    folder, before = tmp_path / "tables", {"runs.sha256"}
    for rule in RULES:
        write_tables(tmp_path, folder, [rule])
        written = {path.name for path in folder.iterdir() if path.suffix != ".html"} - before
        assert written - {"runs.sha256"} == set(files_of(rule)), f"{rule} of {REGISTRY}"
        before |= written


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_the_registry_is_one_of_the_workflow(rule):
    text = (RULES_OF_SNAKEMAKE / "tables.smk").read_text()
    found = re.search(rf"^rule tables_{rule}:\n(.*?)(?=^rule |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"rule {rule} is in {REGISTRY}: add `rule tables_{rule}` to workflow/rules/tables.smk"
    code = f'code_of("analysis", "{RULES[rule].module}")'
    for part in (f'files_of("{rule}")', code, f"-m reward_ablation.analysis {rule} "):
        assert part in found[1], f"rule tables_{rule} in workflow/rules/tables.smk lacks {part}"


def test_the_summary_and_its_rule_read_tables_of_the_registry():
    assert set(SUMMARY_TABLES) <= set(TABLES) - OF_TIMES
    rule = (RULES_OF_SNAKEMAKE / "report.smk").read_text()
    listed = re.search(r"^SUMMARY_TABLES = \[(.*?)\]", rule, re.DOTALL | re.MULTILINE)
    assert re.findall(r'"(\w+)"', listed[1]) == SUMMARY_TABLES
