"""`python -m reward_ablation.analysis.problems ...`: write the table of single problems."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.problems.tables import SCHEMAS, problem_curves
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import all_joined, table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.problems")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the share of right answers to the problems that the study names, by arm and step."""
    root = options.study.parent
    records = read_runs(study, root, ["rollouts.parquet"])
    steps = {folder: record.steps for folder, record in records.items()}
    training_set = next(iter(records.values())).inputs.get("problems")
    parts = {"problem_curves": problem_curves(study, root, steps, training_set)}
    write_tables(all_joined(SCHEMAS, parts), SCHEMAS, options.output)


if __name__ == "__main__":
    with one_line_errors():
        main()
