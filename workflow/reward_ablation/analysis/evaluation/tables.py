"""Tables of evaluated models, from the answers of all runs of a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.evaluation.answers import (
    ANSWER_COLUMNS,
    difference_to_baseline,
    evaluation_of_arm,
    evaluation_of_run,
    question_means,
)
from reward_ablation.analysis.provenance import difference_in_provenance
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.study.errors import StudyError
from reward_ablation.study.provenance import Quantities


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
