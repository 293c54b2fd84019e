"""All tables of a made-up study: by the commands of their rules, or in memory."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.combination.tables import combination_tables
from reward_ablation.analysis.evaluation.tables import evaluation_tables
from reward_ablation.analysis.gradients.tables import SCHEMAS as gradient_schemas
from reward_ablation.analysis.gradients.tables import gradient_tables
from reward_ablation.analysis.problems.tables import problem_curves
from reward_ablation.analysis.provenance.tables import provenance
from reward_ablation.analysis.registry import RULES
from reward_ablation.analysis.reward_hacking.held_out import held_out
from reward_ablation.analysis.reward_hacking.tables import reward_hacking
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import gathered, joined
from reward_ablation.analysis.training.tables import SCHEMAS as training_schemas
from reward_ablation.analysis.training.tables import training_tables
from reward_ablation.report.cost.tables import cost_by_arm, runs_table
from reward_ablation.study.provenance import quantities

#: Columns of each table.
SCHEMAS = {
    table: schema
    for rule in RULES.values()
    for table, schema in import_module(f"reward_ablation.{rule.module}.tables").SCHEMAS.items()
}


def command(rule: str, root: Path, output: Path, *options: str) -> None:
    """Run the command of a rule of tables."""
    main = import_module(f"reward_ablation.{RULES[rule].module}.__main__").main
    main(["--study", str(root / "study.json"), "--output", str(output), *options])


def write_tables(root: Path, output: Path | None = None, mixed: str = "tell") -> Path:
    """Run the commands of all rules of tables in order; the folder of the tables."""
    output = output or root / "tables"
    for rule in RULES:
        command(rule, root, output, *(["--mixed-provenance", mixed] if rule == "provenance" else []))
    return output


def tables_of_gradients(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of gradients in memory."""
    return gathered(gradient_schemas, gradient_tables(study, root))


def tables_of_training(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of training in memory."""
    return gathered(training_schemas, training_tables(study, root))


def all_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """All tables by name, in memory."""
    records = read_runs(study, root)
    training = tables_of_training(study, root)
    rewards = training["rewards_by_step"]
    evaluation = evaluation_tables(study, root)
    steps = {folder: record.steps for folder, record in records.items()}
    answers = held_out(study, root, steps)
    signs = reward_hacking(study, rewards, answers)
    runs = runs_table(study, root)
    return {
        "provenance": provenance(study, {name: quantities(record.model_dump()) for name, record in records.items()}),
        **training,
        **tables_of_gradients(study, root),
        **evaluation,
        "problem_curves": joined(SCHEMAS["problem_curves"], problem_curves(study, root, steps)),
        "reward_hacking": joined(SCHEMAS["reward_hacking"], [signs]),
        **combination_tables(study, root),
        "runs": runs,
        "cost": cost_by_arm(runs, study.arm_names),
    }
