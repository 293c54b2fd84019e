"""`python -m reward_ablation.summary ...`: write the summary of a study."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import read_study
from reward_ablation.cost.table import read_cost
from reward_ablation.design.surface.arms import arms_of_file
from reward_ablation.summary.text import CLAIMS, SIZES, SURFACE, TABLES, summary
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, text


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a study's summary as Markdown, and as a page of the report."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.summary", description=main.__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--output", type=Path, required=True, help="the Markdown file to write, and HTML beside it")
    options = parser.parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        asked = {CLAIMS: study.claims, SIZES: study.arms_with_methods, SURFACE: arms_of_file(study)}
        names = [*TABLES, *(name for name, is_there in asked.items() if is_there)]
        tables = {name: read_table(options.tables / f"{name}.parquet") for name in names}
        words = summary(study, tables, read_cost(options.tables / "cost.csv"))
        with atomic_path(options.output) as temporary:
            temporary.write_text(words, encoding="utf-8")
        shown = page(f"Summary of {study.name}", "As Markdown, to be pasted", text(words))
        with atomic_path(options.output.with_suffix(".html")) as temporary:
            temporary.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    with one_line_errors():
        main()
