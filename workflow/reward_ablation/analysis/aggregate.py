"""From the files of all runs of a study to its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.cost import ask_accounting, cost_of_run
from reward_ablation.analysis.evaluation.answers import (
    ANSWER_COLUMNS,
    difference_to_baseline,
    evaluation_of_arm,
    evaluation_of_run,
    question_means,
)
from reward_ablation.analysis.gradients.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.gradients.similarity_by_step import GRADIENT_COLUMNS, similarity_by_step
from reward_ablation.analysis.provenance import (
    check_not_mixed,
    difference_in_provenance,
    provenance,
)
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import RunRecord, check_run_files, present_inputs, read_run, run_row
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.rewards_by_step import rewards_by_step
from reward_ablation.study.errors import StudyError
from reward_ablation.study.provenance import Quantities, quantities


def read_runs(study: StudyFile, root: Path) -> dict[str, RunRecord]:
    """Records of all runs, by folder, each checked against the study."""
    inputs = present_inputs(study, root)
    return {run.folder: read_run(run, root, inputs) for run in study.runs}


def training_tables(study: StudyFile, root: Path, records: dict[str, RunRecord]) -> dict[str, pd.DataFrame]:
    """Tables of what happened in training: runs, rewards_by_step, similarity_by_step, similarity_by_arm."""
    rollout_columns = ["step", "total", "tokens", "truncated", *(f"score_{name}" for name in study.components)]
    runs, rewards, similarities = [], [], []
    accounting = ask_accounting(study, records)
    for run in study.runs:
        folder = root / run.folder
        record = records[run.folder]
        runs.append(run_row(run, record, cost_of_run(run, record, accounting)))
        check_run_files(folder, record, ["rollouts.parquet", "gradients.parquet"])
        rollouts = read_parquet(folder / "rollouts.parquet", rollout_columns)
        rewards.append(rewards_by_step(rollouts, study.components).assign(arm=run.arm, seed=run.seed))
        gradients = read_parquet(folder / "gradients.parquet", GRADIENT_COLUMNS)
        similarities.append(similarity_by_step(gradients).assign(arm=run.arm, seed=run.seed))
    by_step = joined("similarity_by_step", similarities)
    by_arm = [
        similarity_by_arm(by_step[by_step["arm"] == arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
    ]
    return {
        "runs": joined("runs", [pd.DataFrame(runs)]),
        "rewards_by_step": joined("rewards_by_step", rewards),
        "similarity_by_step": by_step,
        "similarity_by_arm": joined("similarity_by_arm", by_arm),
    }


def read_question_means(path: Path, base: pd.DataFrame | None) -> pd.DataFrame:
    """Question means of one evaluated model, which must have answered the questions of the base model."""
    means = question_means(read_parquet(path, ["mode", "problem_id", *ANSWER_COLUMNS]))
    if base is not None and not means.index.equals(base.index):
        raise StudyError(
            f"{path}: answers other questions than the base model did; delete it and run the workflow again"
        )
    return means


def means_of_arm(study: StudyFile, arm: str, dataset: str, root: Path, base: pd.DataFrame) -> dict[int, pd.DataFrame]:
    """Question means of an arm's models, by seed."""
    return {
        run.seed: read_question_means(root / study.answers_file(dataset, run.name), base) for run in study.runs_of(arm)
    }


def evaluation_tables(study: StudyFile, root: Path, values: dict[str, Quantities]) -> dict[str, pd.DataFrame]:
    """Tables of the final models: evaluation_by_run, evaluation_by_arm, paired_differences.

    Parameters
    ----------
    values : dict
        Provenance of each run, by folder.
    """
    by_run, by_arm, differences = [], [], []
    resamples, confidence = study.bootstrap, study.confidence
    for dataset in study.datasets:
        base = read_question_means(root / study.answers_file(dataset, "base"), None)

        by_run.append(evaluation_of_run(base, "base", None, dataset))
        by_arm.append(evaluation_of_arm([base], "base", dataset, resamples, confidence))
        baseline = means_of_arm(study, study.baseline, dataset, root, base)
        for arm in study.arm_names:
            means = baseline if arm == study.baseline else means_of_arm(study, arm, dataset, root, base)
            by_run += [evaluation_of_run(of_seed, arm, seed, dataset) for seed, of_seed in means.items()]
            by_arm.append(evaluation_of_arm(list(means.values()), arm, dataset, resamples, confidence))
            if arm != study.baseline:
                labels = {"arm": arm, "baseline": study.baseline, "dataset": dataset}
                difference = difference_to_baseline(means, baseline, labels, resamples, confidence)
                other = difference_in_provenance(study.runs_of(arm), study.runs_of(study.baseline), values)
                differences.append(difference.assign(provenance=other))
    return {
        "evaluation_by_run": joined("evaluation_by_run", by_run),
        "evaluation_by_arm": joined("evaluation_by_arm", by_arm),
        "paired_differences": joined("paired_differences", differences),
    }


def aggregate(study: StudyFile, root: Path, refuse_mixed: bool = False) -> dict[str, pd.DataFrame]:
    """All tables of a study, by name; one arm is in memory at a time, and the baseline.

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
        **training_tables(study, root, records),
        **evaluation_tables(study, root, values),
    }
