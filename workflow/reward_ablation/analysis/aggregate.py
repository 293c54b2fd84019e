"""From the files of all runs of a study to its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.cost import ask_accounting, cost_of_run
from reward_ablation.analysis.evaluation.examples import examples
from reward_ablation.analysis.evaluation.hours import evaluation_hours
from reward_ablation.analysis.evaluation.learning_curves import learning_curves
from reward_ablation.analysis.evaluation.problem_curves import problem_curves
from reward_ablation.analysis.evaluation.tables import evaluation_tables
from reward_ablation.analysis.gradients.tables import gradient_tables
from reward_ablation.analysis.provenance import check_not_mixed, provenance
from reward_ablation.analysis.runs import RunRecord, check_run_files, present_inputs, read_run, run_row
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.tables import outcome_tables, training_tables
from reward_ablation.study.provenance import quantities

#: Files of a run that tables are made of.
RUN_FILES = ["rollouts.parquet", "gradients.parquet"]


def read_runs(study: StudyFile, root: Path) -> dict[str, RunRecord]:
    """Records of all runs, by folder, each checked against the study, and its files against the record."""
    inputs = present_inputs(study, root)
    records = {}
    for run in study.runs:
        records[run.folder] = read_run(run, root, inputs)
        check_run_files(root / run.folder, records[run.folder], RUN_FILES)
    return records


def runs_table(study: StudyFile, records: dict[str, RunRecord], root: Path) -> pd.DataFrame:
    """What trained each run, and what it and its evaluations cost."""
    accounting = ask_accounting(study, records)
    rows = []
    for run in study.runs:
        cost = cost_of_run(run, records[run.folder], accounting) | evaluation_hours(study, run, root)
        rows.append(run_row(run, records[run.folder], cost))
    return joined("runs", [pd.DataFrame(rows)])


def aggregate(study: StudyFile, root: Path, refuse_mixed: bool = False) -> dict[str, pd.DataFrame]:
    """All tables of a study, by name.

    Parameters
    ----------
    refuse_mixed : bool
        Whether runs that differ in code, packages or hardware are an error.
    """
    records = read_runs(study, root)
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    steps = {folder: record.steps for folder, record in records.items()}
    training_set = next(iter(records.values())).inputs.get("problems")
    origins = provenance(study, values)
    if refuse_mixed:
        check_not_mixed(origins)
    training = training_tables(study, root)
    tables = {
        "provenance": origins,
        "runs": runs_table(study, records, root),
        **training,
        **gradient_tables(study, root, training["rewards_by_step"]),
        **evaluation_tables(study, root, values),
        "learning_curves": learning_curves(study, root, steps),
        "problem_curves": problem_curves(study, root, steps, training_set),
        "examples": examples(study, root),
    }
    return {**tables, **outcome_tables(study, tables)}
