"""Command that writes the summary, the main table and the first page of the report: `python -m reward_ablation.report`.

The rule `summary` runs it after its tables and a figure: of the primary comparison, or of the training rewards in a
study without evaluation. One command writes all these files, since they are made of the same tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.results import load
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.report.cost.columns import read_cost
from reward_ablation.report.main_table import as_latex, as_markdown, main_table, table_of_training
from reward_ablation.report.overview import overview
from reward_ablation.report.summary import CLAIMS, REWARDS, SIZES, TABLES, summary
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a study's summary, its main table and the first page of its report."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.report", description=main.__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json, in the study's results folder")
    parser.add_argument("--figure", type=Path, required=True, help="the figure of the primary comparison, as PNG")
    options = parser.parse_args(arguments)
    results = load(options.study.parent)
    study, folder = results.study, results.folder / "tables"
    with storage_errors(folder):
        optional = {
            CLAIMS: study.claims,
            SIZES: study.arms_with_methods and not study.imported,
            REWARDS: not study.datasets,
        }
        names = [*TABLES, *(name for name, is_needed in optional.items() if is_needed)]
        tables = {name: results[name] for name in names}
        for name, words in pages(study, tables, read_cost(folder / "cost.csv"), options.figure.read_bytes()).items():
            with atomic_path(folder / name) as temporary:
                temporary.write_text(words, encoding="utf-8")


def pages(study: StudyFile, tables: dict[str, pd.DataFrame], cost: pd.DataFrame, picture: bytes) -> dict[str, str]:
    """Content of each file, by its name; `picture` is the figure of the first page as PNG."""
    words = summary(study, tables, cost)
    main = (
        main_table(study, tables["evaluation_by_arm"], tables["paired_differences"])
        if study.datasets
        else table_of_training(study, tables[REWARDS])
    )
    return {
        "summary.md": words,
        "summary.html": page(f"Summary of {study.name}", "As Markdown, to be pasted", text(words)),
        "main.md": as_markdown(main),
        "main.tex": as_latex(main),
        "main.html": page(
            f"Main table of {study.name}",
            main.caption.removesuffix("."),
            table(main.columns, main.rows),
            *(section("LaTeX"), text(as_latex(main)), section("Markdown"), text(as_markdown(main))),
        ),
        "overview.html": overview(study, tables, cost, picture),
    }


if __name__ == "__main__":
    with one_line_errors():
        main()
