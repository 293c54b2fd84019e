"""`python -m reward_ablation.analysis.reward_hacking ...`: write the table of signs of reward hacking."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.reward_hacking.schemas import SCHEMAS
from reward_ablation.analysis.reward_hacking.tables import reward_hacking
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import joined, table_parser, write_tables
from reward_ablation.system.errors import one_line_errors, storage_errors

#: Tables from which the signs are read.
TABLES = ("rewards_by_step", "learning_curves", "evaluation_by_arm")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table `reward_hacking`, from tables of training and of evaluated models."""
    options = table_parser("reward_ablation.analysis.reward_hacking", main.__doc__).parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        signs = reward_hacking(study, *(read_table(options.output / f"{name}.parquet") for name in TABLES))
        tables = {"reward_hacking": joined(SCHEMAS["reward_hacking"], [signs])}
        write_tables(tables, SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
