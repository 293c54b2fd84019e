"""`python -m reward_ablation.analysis --study study.json --results ROOT --output ROOT/tables`: write the tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.analysis.aggregate import aggregate
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import write_table
from reward_ablation.study.errors import one_line_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a study's runs, check them against the study, write every table as CSV and Parquet."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.analysis", description=main.__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--results", type=Path, required=True, help="the study's folder, with runs/ and evaluation/")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    options = parser.parse_args(arguments)
    for name, table in aggregate(read_study(options.study), options.results).items():
        write_table(name, table, options.output)
        print(f"{name}: {len(table)} rows")


if __name__ == "__main__":
    with one_line_errors():
        main()
