"""`python -m reward_ablation.report.cost ...`: write the tables of costs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import command_line, run_command, write_csv, write_tables
from reward_ablation.report.cost.columns import COST, SCHEMAS
from reward_ablation.report.cost.tables import cost_by_arm, runs_table, write_cost_page
from reward_ablation.system.errors import one_line_errors


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables `runs` and `cost`, and the page of costs. For runs in Slurm jobs, query Slurm's accounting."""
    runs = runs_table(study, options.study.parent)
    write_tables([("runs", runs)], {"runs": SCHEMAS["runs"]}, options.output, csv_only=COST)
    cost = cost_by_arm(runs, study.arm_names)
    write_csv(cost, options.output / "cost.csv")
    write_cost_page(cost, study, options.output / "cost.html")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, and write the tables."""
    run_command(write, command_line("report.cost", write.__doc__).parse_args(arguments))


if __name__ == "__main__":
    with one_line_errors():
        main()
