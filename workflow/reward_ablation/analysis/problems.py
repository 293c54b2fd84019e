"""Table problem_curves: share of right answers, over training, to the problems that the study names.

The rule `tables_problems` calls `write`, in studies that name problems under `figures.problems`. Its intervals are over
answers, not over seeds, so it shares no estimator with the other tables.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, why_none_right
from reward_ablation.analysis.evaluation.question_means import SAMPLED
from reward_ablation.analysis.evaluation.stored_answers import read_answers
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_rollouts, read_runs
from reward_ablation.analysis.study_file import BASE, StudyFile, correctness_component
from reward_ablation.analysis.tables import COUNT, ESTIMATE, TEXT, columns, write_tables
from reward_ablation.system.files import sha256

SCHEMAS = {
    # source: training (without a data set) or evaluation.
    "problem_curves": columns(
        (TEXT, "problem_id question arm"), (COUNT, "step"), (TEXT, "source dataset"), *ESTIMATE, (COUNT, "answers")
    )
}


def write(study: StudyFile, options: Namespace) -> None:
    """Write the table; the runs' records and rollouts are checked first."""
    root = options.study.parent
    records = read_runs(study, root, ["rollouts.parquet"])
    steps = {folder: record.steps for folder, record in records.items()}
    # Where the training set's file is there, `read_runs` refuses runs of another, so the first run stands for all.
    training_set = next(iter(records.values())).inputs.get("problems")
    parts = problem_curves(study, root, steps, training_set)
    write_tables([("problem_curves", part) for part in parts], SCHEMAS, options.output)


def problem_curves(
    study: StudyFile, root: Path, last_steps: dict[str, int], training_set: str | None = None
) -> list[pd.DataFrame]:
    """Parts of the table: share of right answers to the named problems, by arm and step; prints which nobody met.

    Of completions at a step, by the component that scores the answer alone; and of answers of the base model, kept and
    final ones, strictly right or with the best score of the first own metric; sampled ones where there are some.

    Low and high are Wilson's over the answers of all seeds, and say nothing about other seeds. Questions of training
    are null where the training set is gone, or has another digest than `training_set`.
    """
    parts = [_of_training(study, root, training_set)]
    parts += [_of_evaluation(study, dataset, root, last_steps) for dataset in study.datasets]
    met = {name for part in parts if len(part) for name in part["problem_id"]}
    if unknown := [name for name in study.shown_problems if name not in met]:
        print(f"problem_curves: without {', '.join(unknown)}: {why_none_right(study)}")
    return parts


def counted(answers: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Numbers of right answers, of answers and of seeds (at least 1; the base model has none), by the columns `by`."""
    grouped = answers.groupby(by, sort=False, dropna=False)
    table = grouped["right"].agg(right="sum", answers="size").reset_index()
    return table.assign(seeds=grouped["seed"].nunique().clip(lower=1).to_numpy())


def shares(counts: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The rows of `counted`, with the share of right answers as estimate, low and high by Wilson's interval."""
    low, high = proportion_confint(counts["right"], counts["answers"], alpha=1 - confidence, method="wilson")
    estimate = counts["right"] / counts["answers"]
    # Where the estimate is 0 or 1, rounding can put an end a little inside of it.
    ends = {"low": np.minimum(low, estimate), "high": np.maximum(high, estimate)}
    return counts.assign(estimate=estimate, **ends, questions=1)


def _of_training(study: StudyFile, root: Path, training_set: str | None) -> pd.DataFrame:
    component = correctness_component(study)
    if component is None:
        return pd.DataFrame()
    name, right = component
    chosen, parts = study.shown_problems, []
    for arm in study.arm_names:
        scored = [run for run in study.runs_of(arm) if name in run.spec.components]
        if scored:
            rows = read_rollouts(scored, root, ["step", "problem_id", f"score_{name}"])
            rows = rows[rows["problem_id"].isin(chosen) & rows[f"score_{name}"].notna()]
            rows = rows.assign(right=rows[f"score_{name}"] >= right)
            parts.append(counted(rows, ["problem_id", "step"]).assign(arm=arm))
    if not any(map(len, parts)):
        return pd.DataFrame()
    table = shares(pd.concat(parts, ignore_index=True), study.confidence)
    path = root / study.inputs["problems"]
    unchanged = training_set is not None and path.is_file() and sha256(path) == training_set
    questions = _questions(path) if unchanged else {}
    return _in_order(table, study, chosen, questions).assign(source="training", dataset=None)


def _questions(path: Path) -> dict[str, str]:
    problems = read_parquet(path, ["id", "question"])
    return dict(zip(problems["id"], problems["question"], strict=True))


def _of_evaluation(study: StudyFile, dataset: str, root: Path, last_steps: dict[str, int]) -> pd.DataFrame:
    passed = metrics_of_study(study).passed
    if passed is None:
        return pd.DataFrame()
    column, passes = passed
    columns = ["mode", "problem_id", column]
    first = read_answers(study, root, dataset, BASE if study.has_base else study.runs[0].name, columns)
    mode = SAMPLED if (first["mode"] == SAMPLED).any() else "greedy"
    chosen, parts = study.shown_problems, []
    for arm in study.arm_names:
        models: list[tuple[int | None, int, pd.DataFrame]] = [(None, 0, first)] if study.has_base else []
        for run in study.runs_of(arm):
            if study.keep_models:
                kept = read_answers(study, root, dataset, run.name, columns, kept=True)
                models += [(run.seed, int(step), kept[kept["step"] == step]) for step in kept["step"].unique()]
            models.append((run.seed, last_steps[run.folder], read_answers(study, root, dataset, run.name, columns)))
        for seed, step, rows in models:
            own = rows[(rows["mode"] == mode) & rows["problem_id"].isin(chosen)]
            parts.append(own.assign(arm=arm, step=step, seed=seed, right=passes(own[column])))
    answers = pd.concat(parts, ignore_index=True)
    if answers.empty:
        return pd.DataFrame()
    table = shares(counted(answers, ["problem_id", "arm", "step"]), study.confidence)
    questions = _questions(root / study.questions[dataset])
    return _in_order(table, study, chosen, questions).assign(source="evaluation", dataset=dataset)


def _in_order(table: pd.DataFrame, study: StudyFile, chosen: list[str], questions: dict[str, str]) -> pd.DataFrame:
    """Rows sorted by problem, in the order of `chosen`, then by arm and step; with the problems' questions."""
    places = {"problem_id": chosen, "arm": study.arm_names}
    # As objects: the categories of a file that was read also name problems that are not among the rows.
    order = pd.DataFrame({name: table[name].astype(object).map(values.index) for name, values in places.items()})
    order["step"] = table["step"]
    table = table.assign(question=table["problem_id"].map(questions))
    return table.loc[order.sort_values(["problem_id", "arm", "step"]).index]
