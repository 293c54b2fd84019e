"""Names of the tables of a study, each with the rule that makes it.

The Snakefile asks it for the outputs of the rules, the command of the tables for the module to run, figures and
`results` for the files to read, and the page of commands for the modules.

The rule of Snakemake is `tables_NAME` in `workflow/rules/tables.smk`. The rule runs `python -m reward_ablation.analysis
NAME`. `SCHEMAS` in the rule's module has the columns of its tables, and `write` there writes them.

To add a table: add its name to `RULES` here, and its columns and rows to that module.
The Snakefile reads this module, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import NamedTuple


class TableRule(NamedTuple):
    """A rule that makes tables: the module in `reward_ablation` that writes them, and the names of the tables."""

    module: str
    tables: tuple[str, ...]


#: Rules of tables by name, in the order in which data flow. The command imports their modules by name, since that of
#: costs is above this package.
RULES = {
    "provenance": TableRule("analysis.provenance", ("provenance",)),
    "training": TableRule("analysis.training", ("rewards_by_step", "signals_by_step", "component_correlations")),
    "gradients": TableRule("analysis.gradients.tables", ("similarity_by_step", "similarity_by_arm", "alignment")),
    "evaluation": TableRule(
        "analysis.evaluation.tables",
        (
            "evaluation_by_run",
            "evaluation_by_arm",
            "paired_differences",
            "component_effects",
            "differences_by_level",
            "learning_curves",
            "examples",
        ),
    ),
    "reward_hacking": TableRule("analysis.reward_hacking", ("reward_hacking",)),
    "combination": TableRule("analysis.combination", ("method_weights", "advantage_size", "methods_offline")),
    "claims": TableRule("analysis.claims", ("claims",)),
    "cost": TableRule("report.cost.tables", ("runs", "cost")),
}

#: Rules that run only in a study which asks for their tables.
ON_REQUEST = {"claims", "combination"}

#: Tables of times, which differ between equal studies. These tables have a CSV file and no Parquet file.
OF_TIMES = {"cost"}

#: The rule of each table.
TABLES = {table: rule for rule, entry in RULES.items() for table in entry.tables}


def file_of(table: str) -> str:
    """Name of the file from which a table is read, below the folder of the tables."""
    return f"{table}.csv" if table in OF_TIMES else f"{table}.parquet"


def files_of(rule: str) -> list[str]:
    """Names of the files that a rule writes for its tables, below the folder of the tables."""
    tables = RULES[rule].tables
    return [f"{table}.csv" for table in tables] + [f"{table}.parquet" for table in tables if table not in OF_TIMES]
