"""`python -m reward_ablation.design.surface ...`: write the tables of the surface over the weights."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.design.surface.tables import SCHEMAS, surface_tables
from reward_ablation.system.errors import one_line_errors


@table_command("design.surface")
def main(study: StudyFile, options: Namespace) -> None:
    """Fit the primary metric over the shares of the weights, and write the surface, its points and its check."""
    by_run = read_table(options.output / "evaluation_by_run.parquet")
    write_tables(surface_tables(study, by_run), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
