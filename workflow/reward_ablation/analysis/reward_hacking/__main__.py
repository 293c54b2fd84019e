"""`python -m reward_ablation.analysis.reward_hacking ...`: write the table of signs of reward hacking."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.reward_hacking.tables import SCHEMAS, reward_hacking
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import all_joined, table_command, write_tables
from reward_ablation.system.errors import one_line_errors

#: Tables from which the signs are read.
TABLES = ("rewards_by_step", "learning_curves", "evaluation_by_arm")


@table_command("analysis.reward_hacking")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the table `reward_hacking`, from tables of training and of evaluated models."""
    signs = reward_hacking(study, *(read_table(options.output / f"{name}.parquet") for name in TABLES))
    write_tables(all_joined(SCHEMAS, {"reward_hacking": [signs]}), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
