"""`python -m reward_ablation.analysis.training ...`: write the tables of training."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.analysis.training.tables import SCHEMAS, training_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.training")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the tables of rewards and training signals, from the rollouts of all runs."""
    write_tables(training_tables(study, options.study.parent), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
