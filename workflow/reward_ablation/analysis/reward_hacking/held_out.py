"""The metric of signs and the length of held-out answers, by run and step."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.evaluation.learning_curves import means_by_step
from reward_ablation.analysis.evaluation.question_means import SAMPLED, QuestionMeans
from reward_ablation.analysis.evaluation.stored_answers import means_of_answers
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.study_file import StudyFile

#: Takes the place of strict accuracy, which changes with the form of an answer.
LENIENT = "accuracy_lenient"


def metric_of_signs(study: StudyFile) -> str:
    """The primary metric; lenient accuracy in place of strict accuracy."""
    return LENIENT if study.primary.metric == "accuracy_strict" else study.primary.metric


def dataset_of_signs(study: StudyFile) -> str:
    """The primary data set; in a preview that does not show it, the first that it shows."""
    return study.primary.dataset if study.primary.dataset in study.datasets else next(iter(study.datasets))


def held_out(study: StudyFile, root: Path, last_steps: dict[str, int]) -> pd.DataFrame:
    """Rows (arm, seed, step) of the primary data set: `metric` and `tokens`, means over questions.

    Sampled answers count where there are some, since training is on samples.
    Step 0 is the base model, in each run. `last_steps` has the last step of each run, by folder.
    """
    dataset = dataset_of_signs(study)
    base = means_of_answers(study, root, dataset, BASE)
    mode = SAMPLED if SAMPLED in base else study.primary.mode

    def values(means: QuestionMeans) -> dict[str, float]:
        names = {"metric": metric_of_signs(study), "tokens": "tokens"}
        return {name: float(means[mode].of(metric).mean()) for name, metric in names.items()}

    found = []
    for run in study.runs:
        by_step = means_by_step(study, run, dataset, root, last_steps[run.folder], base)
        found += [
            {"arm": run.arm, "seed": run.seed, "step": step, **values(means)}
            for step, means in [(0, base), *by_step.items()]
        ]
    return pd.DataFrame(found)
