"""`python -m reward_ablation.analysis.training ...`: write the tables of training."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import table_parser, write_tables
from reward_ablation.analysis.training.schemas import SCHEMAS
from reward_ablation.analysis.training.tables import training_tables
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of rewards and training signals, from the rollouts of all runs."""
    options = table_parser("reward_ablation.analysis.training", main.__doc__).parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        write_tables(training_tables(study, options.study.parent), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
