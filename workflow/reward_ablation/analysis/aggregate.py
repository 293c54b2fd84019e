"""From the files of all runs of a study to its tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.analysis.evaluation import (
    ANSWER_COLUMNS,
    difference_to_baseline,
    evaluation_of_arm,
    evaluation_of_run,
    question_means,
)
from reward_ablation.analysis.rewards_by_step import rewards_by_step
from reward_ablation.analysis.runs import present_inputs, read_run, run_row
from reward_ablation.analysis.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.similarity_by_step import GRADIENT_COLUMNS, similarity_by_step
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.study.errors import StudyError


def read_columns(path: Path, columns: list[str]) -> pd.DataFrame:
    """Read some columns of a Parquet file, leaving out the texts, which are most of its bytes."""
    try:
        return pq.read_table(path, columns=columns).to_pandas()
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; run the workflow again, it makes what is missing") from None


def training_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of what happened in training: runs, rewards_by_step, similarity_by_step, similarity_by_arm."""
    rollout_columns = ["step", "total", "tokens", "truncated", *(f"score_{name}" for name in study.components)]
    runs, rewards, similarities = [], [], []
    inputs = present_inputs(study, root)
    for run in study.runs:
        runs.append(run_row(run, read_run(run, root, inputs)))
        folder = root / run.folder
        rollouts = read_columns(folder / "rollouts.parquet", rollout_columns)
        rewards.append(rewards_by_step(rollouts, study.components).assign(arm=run.arm, seed=run.seed))
        gradients = read_columns(folder / "gradients.parquet", GRADIENT_COLUMNS)
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
    means = question_means(read_columns(path, ["mode", "problem_id", *ANSWER_COLUMNS]))
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


def evaluation_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of the final models: evaluation_by_run, evaluation_by_arm, paired_differences."""
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
                differences.append(difference_to_baseline(means, baseline, labels, resamples, confidence))
    return {
        "evaluation_by_run": joined("evaluation_by_run", by_run),
        "evaluation_by_arm": joined("evaluation_by_arm", by_arm),
        "paired_differences": joined("paired_differences", differences),
    }


def aggregate(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """All tables of a study, by name; one arm is in memory at a time, and the baseline."""
    return training_tables(study, root) | evaluation_tables(study, root)
