"""A run's answers over its training: of the models that were kept on the way, and of the final one."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile, StudyRun


def answers_by_step(
    study: StudyFile, run: StudyRun, dataset: str, root: Path, last_step: int, columns: list[str]
) -> dict[int, pd.DataFrame]:
    """Answers by optimiser step, in order of steps.

    Parameters
    ----------
    last_step : int
        Steps of the run, whose model is the final one.
    columns : list of str
        Of the answers.
    """
    answers = {}
    if study.keep_models:
        kept = read_parquet(root / study.kept_answers_file(dataset, run.name), ["step", *columns])
        answers = {step: kept.loc[kept["step"] == step, columns] for step in sorted(map(int, kept["step"].unique()))}
    answers[last_step] = read_parquet(root / study.answers_file(dataset, run.name), columns)
    return answers
