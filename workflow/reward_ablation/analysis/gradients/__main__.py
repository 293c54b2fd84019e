"""`python -m reward_ablation.analysis.gradients ...`: write the tables of gradients."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.gradients.tables import SCHEMAS, gradient_tables
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.gradients")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the tables of gradients, from what all runs measured."""
    write_tables(gradient_tables(study, options.study.parent), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
