"""Sources of the signs of reward hacking, beside tables: training answers by step, answers of evaluated models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import means_by_column
from reward_ablation.analysis.evaluation.learning_curves import means_by_step
from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.evaluation.run_means import SAMPLED, columns_of, rows_of
from reward_ablation.analysis.evaluation.stored_answers import read_answers
from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.reward_hacking.words import NAMES
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.study_file import StudyFile, StudyRun, correctness_component
from reward_ablation.analysis.training.signals_by_step import centred, covariances, groups_of, means_by

#: Metrics of held-out answers: right by the lenient grader; and right by this package's strict grader, but not by the
#: other grader that reads the strict answer.
LENIENT, ONE_GRADER = "accuracy_lenient", "correct_only_strict"


def metric_of_signs(study: StudyFile) -> str:
    """Metric of held-out answers that should rise with rewards: the main metric if it is an own one, else lenient."""
    return study.main_metric if study.main_metric in study.metrics else LENIENT


@dataclass(frozen=True)
class HeldOut:
    """Answers of an arm's base model, kept models and final models to one data set.

    Parameters
    ----------
    mode : str
        `sampled` where there are sampled answers, since training is on samples; else `greedy`.
    seeds : list of int
        Seeds of S runs.
    steps : (P,) array
        Steps of the models; 0 for the base model.
    lenient, one_grader : (S, P, Q) arrays
        Means of each question over its samples: the metric of `metric_of_signs`, negated where lower is better, and
        `ONE_GRADER`. The second has no questions where answers are not mathematics.
    name : str
        Name of the metric in `lenient`, in words.
    """

    dataset: str
    mode: str
    seeds: list[int]
    steps: np.ndarray
    lenient: np.ndarray
    one_grader: np.ndarray
    name: str = NAMES["lenient"]


class HeldOutAnswers(Mapping[str, list[HeldOut]]):
    """Answers of each arm's models to each data set, by arm. An arm's answers are read when they are asked for.

    `last_steps` has the last step of each run, by folder.
    """

    def __init__(self, study: StudyFile, root: Path, last_steps: dict[str, int]):
        self.study, self.root, self.last_steps = study, root, last_steps
        self.metric = metric_of_signs(study)
        self.of_arrays = [self.metric, *([ONE_GRADER] if study.mathematics else [])]
        self.metrics = replace(metrics_of_study(study), only=self.of_arrays)
        self.base = {
            dataset: means_by_column(
                read_answers(study, root, dataset, BASE, self.metrics.columns, self.metrics.coded), self.metrics
            )
            for dataset in study.datasets
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self.study.arm_names)

    def __len__(self) -> int:
        return len(self.study.arms)

    def __getitem__(self, arm: str) -> list[HeldOut]:
        runs = self.study.runs_of(arm)
        return [self._of_dataset(runs, dataset) for dataset in self.study.datasets if runs]

    def _of_dataset(self, runs: list[StudyRun], dataset: str) -> HeldOut:
        base, own = self.base[dataset], self.study.metrics.get(self.metric)
        sign = -1 if own is not None and not own.higher_is_better else 1
        name = name_of(self.metric) if sign > 0 else f"{name_of(self.metric)} (negated)"
        mode = SAMPLED if SAMPLED in base.index.unique("mode") else "greedy"
        by_seed = {
            run.seed: {0: base}
            | means_by_step(self.study, run, dataset, self.root, self.last_steps[run.folder], base, self.metrics)
            for run in runs
        }
        steps = sorted(set.intersection(*(set(of_seed) for of_seed in by_seed.values())))
        tables = [[columns_of(of[step]) for step in steps] for of in by_seed.values()]
        rows = rows_of(base.index, mode)
        arrays = [np.array([[of[column][rows] for of in of_seed] for of_seed in tables]) for column in self.of_arrays]
        lenient = arrays[0] * sign
        one_grader = arrays[1] if self.study.mathematics else np.empty((len(tables), len(steps), 0))
        return HeldOut(dataset, mode, list(by_seed), np.array(steps), lenient, one_grader, name)


def training_answers(study: StudyFile, root: Path) -> pd.DataFrame:
    """`answers_of_steps` of all runs, with columns arm and seed; empty where no component scores the answer alone."""
    correctness = correctness_component(study)
    parts = [pd.DataFrame(columns=["arm", "seed", "step", "right", "sampling", "wrong_longer"])]
    name, right = correctness or ("", 0.0)
    for arm in study.arm_names:
        runs = [run for run in study.runs_of(arm) if name in run.spec.components]
        if runs:
            files = [root / run.folder / "rollouts.parquet" for run in runs]
            columns = ["step", "problem_id", "tokens", f"score_{name}"]
            rollouts, sizes = read_parquets(files, columns, coded=["problem_id"])
            stride = int(rollouts["step"].max()) + 1 if len(rollouts) else 1
            rollouts["step"] += np.repeat(
                np.arange(len(runs)) * stride, sizes
            )  # steps of one run after those of another
            single = runs[0].spec.training.get("num_generations") == 1
            rows = answers_of_steps(rollouts.rename(columns={f"score_{name}": "score"}), right, single)
            run_number, rows["step"] = np.divmod(rows["step"].to_numpy(), stride)
            parts.append(rows.assign(arm=arm, seed=np.array([run.seed for run in runs])[run_number]))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def answers_of_steps(rollouts: pd.DataFrame, right: float, single: bool = False) -> pd.DataFrame:
    """Share of right completions at each step, and by how much wrong ones are longer than right ones of one problem.

    Parameters
    ----------
    rollouts : DataFrame
        step, problem_id, tokens and score; completions without a score are left out.
    right : float
        Lowest score of a right completion.
    single : bool
        Whether there is one completion a problem: the completions of a step are then compared.

    Returns
    -------
    DataFrame
        One row per step; columns:

        right
            Share in [0, 1].
        sampling
            Variance of `right` over the choice of problems and completions, from the spread of problems' means, or of
            completions where there is one problem.
        wrong_longer
            Natural logarithm of the lengths' ratio, a least-squares coefficient within problems: hard problems, whose
            answers are long, do not raise it. NaN where no problem has both right and wrong completions.
    """
    known = rollouts[rollouts["score"].notna()]
    steps, step = np.unique(known["step"].to_numpy(), return_inverse=True)
    group = groups_of(known, step, single)
    groups = int(group.max(initial=-1)) + 1
    wrong = (known["score"].to_numpy(dtype=float) < right).astype(float)
    lengths = centred(np.log(np.maximum(known["tokens"].to_numpy(dtype=float), 1)), group, groups)
    apart = centred(wrong, group, groups)
    products, squares = (np.bincount(step, weights=apart * of, minlength=len(steps)) for of in (lengths, apart))
    longer = np.divide(products, squares, out=np.full(len(steps), np.nan), where=squares > 1e-9)
    right_share = 1 - means_by(wrong, step, len(steps))
    columns = {"right": right_share, "sampling": sampling_variance(known, step, wrong), "wrong_longer": longer}
    return pd.DataFrame({"step": steps, **columns})


def sampling_variance(rollouts: pd.DataFrame, step: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Variance of each step's share of wrong completions; NaN with one completion.

    `step` has the number of each completion's step, and `wrong` is 0 or 1.
    """
    steps = int(step.max(initial=-1)) + 1
    problem = groups_of(rollouts, step, False)
    problems = int(problem.max(initial=-1)) + 1
    step_of_problem = np.zeros(problems, dtype=np.int64)
    step_of_problem[problem] = step
    means = means_by(wrong, problem, problems)
    of_problems = covariances(means, means, step_of_problem, steps) / np.bincount(step_of_problem, minlength=steps)
    of_completions = covariances(wrong, wrong, step, steps) / np.bincount(step, minlength=steps)
    return np.where(np.isfinite(of_problems), of_problems, of_completions)
