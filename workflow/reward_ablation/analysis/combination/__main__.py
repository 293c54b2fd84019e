"""`python -m reward_ablation.analysis.combination ...`: write the tables of methods of combination."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.combination.tables import SCHEMAS, combination_tables
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.combination")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the tables of methods of combination, from the weights, rollouts and gradients of all runs."""
    write_tables(combination_tables(study, options.study.parent), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
