"""`python -m reward_ablation.analysis.gradients ...`: write the tables of gradients."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.gradients.tables import SCHEMAS, gradient_tables
from reward_ablation.analysis.reading import read_parquet, rows_by_arm
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.gradients")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the tables of gradients, from what all runs measured and from two tables of training."""
    labels = ["arm", "quantity"]
    rewards = read_parquet(options.output / "rewards_by_step.parquet", [*labels, "seed", "step", "mean"], coded=labels)
    columns = ["seed", "step", "quantity", "component", "value"]
    signals = rows_by_arm(options.output / "signals_by_step.parquet", columns, ["quantity"])
    write_tables(gradient_tables(study, options.study.parent, rewards, signals), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
