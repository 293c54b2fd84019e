"""From the files of all runs of a study to its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.cost import ask_accounting, cost_of_run
from reward_ablation.analysis.evaluation.tables import evaluation_tables
from reward_ablation.analysis.gradients.tables import gradient_tables
from reward_ablation.analysis.provenance import check_not_mixed, provenance
from reward_ablation.analysis.runs import RunRecord, check_run_files, present_inputs, read_run, run_row
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.tables import training_tables
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


def runs_table(study: StudyFile, records: dict[str, RunRecord]) -> pd.DataFrame:
    """What trained each run, and what it cost."""
    accounting = ask_accounting(study, records)
    rows = [run_row(run, records[run.folder], cost_of_run(run, records[run.folder], accounting)) for run in study.runs]
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
    origins = provenance(study, values)
    if refuse_mixed:
        check_not_mixed(origins)
    return {
        "provenance": origins,
        "runs": runs_table(study, records),
        **training_tables(study, root),
        **gradient_tables(study, root),
        **evaluation_tables(study, root, values),
    }
