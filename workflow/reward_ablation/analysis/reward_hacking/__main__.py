"""`python -m reward_ablation.analysis.reward_hacking ...`: write the table of signs of reward hacking."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.reward_hacking.held_out import held_out
from reward_ablation.analysis.reward_hacking.tables import SCHEMAS, reward_hacking
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import all_joined, table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.reward_hacking")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the table `reward_hacking`, from rewards by step and the answers of evaluated models."""
    root = options.study.parent
    records = read_runs(study, root, ["rollouts.parquet"])
    answers = held_out(study, root, {folder: record.steps for folder, record in records.items()})
    labels = ["arm", "quantity"]
    rewards = read_parquet(options.output / "rewards_by_step.parquet", [*labels, "seed", "step", "mean"], coded=labels)
    signs = reward_hacking(study, rewards, answers)
    write_tables(all_joined(SCHEMAS, {"reward_hacking": [signs]}), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
