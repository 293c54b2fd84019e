"""`python -m reward_ablation.analysis --study study.json --results ROOT --output ROOT/tables`: write the tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.analysis.aggregate import aggregate
from reward_ablation.analysis.cost import cost_by_arm, write_cost, write_cost_page
from reward_ablation.analysis.evaluation.examples import write_examples_page
from reward_ablation.analysis.provenance import write_page
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import write_table
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a study's runs, check them against the study, write every table as CSV and Parquet."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.analysis", description=main.__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--results", type=Path, required=True, help="the study's folder, with runs/ and evaluation/")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    parser.add_argument(
        "--mixed-provenance", choices=["tell", "refuse"], default="tell", help="runs that differ in code or hardware"
    )
    options = parser.parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        tables = aggregate(study, options.results, refuse_mixed=options.mixed_provenance == "refuse")
        for name, table in tables.items():
            write_table(name, table, options.output)
            print(f"{name}: {len(table)} rows")
        write_examples_page(tables["examples"], study, options.output / "examples.html")
        write_page(tables["provenance"], study, options.output / "provenance.html")
        cost = cost_by_arm(tables["runs"], study.arm_names)
        write_cost(cost, options.output / "cost.csv")
        write_cost_page(cost, study, options.output / "cost.html")


if __name__ == "__main__":
    with one_line_errors():
        main()
