"""`python -m reward_ablation.analysis.gradients ...`: write the tables of gradients."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.analysis.gradients.schemas import SCHEMAS
from reward_ablation.analysis.gradients.tables import gradient_tables
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import table_parser, write_tables
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of gradients, from what all runs measured and from two tables of training."""
    options = table_parser("reward_ablation.analysis.gradients", main.__doc__).parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        rewards, signals = (
            read_table(options.output / f"{name}.parquet") for name in ("rewards_by_step", "signals_by_step")
        )
        write_tables(gradient_tables(study, options.study.parent, rewards, signals), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
