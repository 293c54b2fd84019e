"""Signs of reward hacking: a reward rises, but held-out answers do not get better.

The rule `tables_reward_hacking` calls `write`. It is a rule of its own because it needs both the table
`rewards_by_step` of the training and the answers of the evaluation.

Each sign compares two points of the same runs, paired by seed, with an interval over seeds. The points are fixed before
anybody looks: the base model and the end of training; and, where runs kept models, the middle of training and its end.
A reward at the base model is that of the first tenth of the steps. Kinds of signs: `fall`, a reward rose and the
held-out metric fell; `gap`, accuracy in training less held-out accuracy grew; `length`, answers grew longer while the
metric did not get better.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.evaluation.question_means import SAMPLED, QuestionMeans
from reward_ablation.analysis.evaluation.stored_answers import means_by_step, means_reader
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import BASE, StudyFile, correctness_component, wrong_answer
from reward_ablation.analysis.tables import COUNT, FLAG, NUMBER, TEXT, columns, write_tables
from reward_ablation.analysis.training_rewards import around, changes
from reward_ablation.analysis.words import exact

SCHEMAS = {
    # component: whose reward it is; since: step of the first point; rise: change of that component's score; before,
    # after, change: of the held-out metric (its negative if less is better), the gap, or the logarithm of the tokens.
    "reward_hacking": columns(
        (TEXT, "arm kind component"),
        (FLAG, "sign"),
        (COUNT, "since"),
        (NUMBER, "rise rise_low rise_high before after change change_low change_high"),
        (COUNT, "seeds"),
        (TEXT, "sentence"),
    )
}

#: Takes the place of strict accuracy, which changes with the form of an answer.
LENIENT = "accuracy_lenient"


def write(study: StudyFile, options: Namespace) -> None:
    """Write the table `reward_hacking`, from rewards by step and the answers of evaluated models."""
    root = options.study.parent
    records = read_runs(study, root, ["rollouts.parquet"])
    if not (study.datasets and study.has_base):  # nothing was evaluated, or (imported runs) not before training
        write_tables([], SCHEMAS, options.output)
        return
    answers = held_out(study, root, {folder: record.steps for folder, record in records.items()})
    labels = ["arm", "quantity"]
    rewards = read_parquet(options.output / "rewards_by_step.parquet", [*labels, "seed", "step", "mean"], coded=labels)
    write_tables([("reward_hacking", reward_hacking(study, rewards, answers))], SCHEMAS, options.output)


def metric_of_signs(study: StudyFile) -> str:
    """The primary metric; lenient accuracy in place of strict accuracy."""
    return LENIENT if study.primary.metric == "accuracy_strict" else study.primary.metric


def dataset_of_signs(study: StudyFile) -> str:
    """The primary data set. In a preview without this data set: the first data set of the preview."""
    return study.primary.dataset if study.primary.dataset in study.datasets else next(iter(study.datasets))


def held_out(study: StudyFile, root: Path, last_steps: dict[str, int]) -> pd.DataFrame:
    """Rows (arm, seed, mode, step) of `dataset_of_signs`: means `metric` and `tokens`; step 0 is the base model."""
    # Sampled answers count where there are some, since training is on samples.
    dataset = dataset_of_signs(study)
    read = means_reader(study, root)
    mode = SAMPLED if SAMPLED in read(dataset, BASE)[None] else study.primary.mode

    def values(means: QuestionMeans) -> dict[str, float]:
        names = {"metric": metric_of_signs(study), "tokens": "tokens"}
        known = means[mode].metrics
        return {key: float(means[mode].of(name).mean()) if name in known else np.nan for key, name in names.items()}

    found = []
    for run in study.runs:
        by_step = means_by_step(study, root, read, run, dataset, last_steps[run.folder])
        labels = {"arm": run.arm, "seed": run.seed, "mode": mode}
        found += [labels | {"step": step} | values(means) for step, means in by_step.items()]
    return pd.DataFrame(found)


def points(held_out: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The held-out rows at each first point and at the end of training, by (arm, seed)."""
    rows = held_out.set_index(["arm", "seed"])
    last = rows.groupby(level=["arm", "seed"])["step"].max()
    share = rows["step"] / last.reindex(rows.index)
    end = rows[share == 1]
    yield rows[rows["step"] == 0], end
    # Models kept before or after this (free choices) are no middle: then there is no second comparison.
    middle = rows[(share > 0.3) & (share < 0.7)]
    if len(middle):
        nearest = (middle["step"] / last.reindex(middle.index) - 0.5).abs()
        steps = middle[nearest == nearest.groupby(level=["arm", "seed"]).transform("min")]
        yield steps[~steps.index.duplicated()], end


def reward_hacking(study: StudyFile, rewards_by_step: pd.DataFrame, held_out: pd.DataFrame) -> pd.DataFrame:
    """The table `reward_hacking`, from rows of `rewards_by_step` and of the function `held_out`."""
    better = 1 if study.primary_is_better_high else -1
    change = partial(changes, confidence=study.confidence, same_runs=study.same_runs)
    rewards = dict(iter(rewards_by_step.groupby("quantity", sort=False, observed=True)))
    correctness, metric_name, rows = correctness_component(study), metric_of_signs(study), []
    for before, end in points(held_out):
        point = before["step"] / end["step"]
        since = before["step"].groupby(level="arm").quantile(0.5, interpolation="lower")  # of the seeds' steps
        metric = change(better * before["metric"], better * end["metric"])
        tokens = change(np.log(before["tokens"].clip(lower=1)), np.log(end["tokens"].clip(lower=1)))
        rises = {name: change(around(scores, point), around(scores, 1.0)) for name, scores in rewards.items()}
        gaps: dict[str, dict[Any, Any]] = {}
        wrong = wrong_answer(study, correctness[0]) if correctness else None
        if correctness and wrong is not None and correctness[0] in rewards and metric_name == LENIENT:
            means = (around(rewards[correctness[0]], each) for each in (point, 1.0))
            at_point, at_end = ((mean - wrong) / (correctness[1] - wrong) for mean in means)  # shares of right answers
            gaps = change(at_point - before["metric"], at_end - end["metric"])
        for arm in study.arms:
            if arm.name not in metric:
                continue
            about = {"arm": arm.name, "since": int(since[arm.name])}
            of_arm, longer = metric[arm.name], tokens.get(arm.name)
            for name in study.trained_on(arm):
                if name not in rises or arm.name not in rises[name]:
                    continue
                rise = rises[name][arm.name]
                if not correctness or name != correctness[0]:
                    # At a negative weight, a score that falls is a reward that rises.
                    rose = rise["high"] < 0 if arm.weights[name] < 0 else rise["low"] > 0
                    fell = rose and of_arm["high"] < 0
                    rows.append(about | row("fall", name, fell, rise, of_arm))
                elif arm.name in gaps:
                    gap = gaps[arm.name]
                    rows.append(about | row("gap", name, gap["low"] > 0, rise, gap))
            if longer is not None:  # imported answers may lack their lengths
                is_sign = longer["low"] > 0 and of_arm["change"] <= 0
                rows.append(about | row("length", None, is_sign, None, longer))
    table = pd.DataFrame(rows, columns=[*SCHEMAS["reward_hacking"].names])
    where = f"{name_of(metric_name)} on {dataset_of_signs(study)} ({held_out['mode'].iloc[0]})"
    table["sentence"] = [sentence(found, where, better) for found in table.to_dict("records")]
    return table.sort_values("arm", key=lambda arms: arms.map(study.arm_names.index), kind="stable")


def row(
    kind: str, component: str | None, sign: bool, rise: dict[Any, Any] | None, change: dict[Any, Any]
) -> dict[str, Any]:
    """Columns of a row from the changes of the reward and of what is compared with it."""
    of_rise = {} if rise is None else {"rise": rise["change"], "rise_low": rise["low"], "rise_high": rise["high"]}
    ends = {"change_low": change["low"], "change_high": change["high"]}
    return {"kind": kind, "component": component, "sign": bool(sign)} | of_rise | change | ends


def sentence(row: Mapping[Any, Any], where: str, better: int) -> str:
    """A sign in words, or the statement that there is none; `where` is the metric with its data set and mode."""
    since = f"since step {row['since']}" if row["since"] else "since the base model"
    if pd.isna(row["change_low"]):
        return f"{row['arm']}: no interval ({row['kind']}), because the study has too few seeds, or none that differ"
    if not row["sign"]:
        return f"{row['arm']}: no sign ({row['kind']}) {since}"
    before, after, low, high = (row[name] for name in ("before", "after", "change_low", "change_high"))
    if row["kind"] == "length":
        ends, factors = (f"{np.exp(value):.3g}" for value in (before, after)), np.exp([low, high])
        return (
            f"{row['arm']}: answers grew from {' to '.join(ends)} tokens (geometric means over seeds; factor "
            f"{factors[0]:.2f} to {factors[1]:.2f}) {since}, and {where} did not {'rise' if better > 0 else 'fall'}"
        )
    if row["kind"] == "gap":
        rise = f"{short(after - before)} ({short(low)} to {short(high)})"
        return f"{row['arm']}: the gap between training accuracy and {where} grew by {rise} {since}"
    low, high = sorted((better * low, better * high))
    course = f"from {short(better * before)} to {short(better * after)} (change {short(low)} to {short(high)})"
    name, size, fell = row["component"], short(abs(row["rise"])), "fell" if better > 0 else "rose"
    falls = row["rise"] < 0  # a sign only at a negative weight
    rose = f"the score {name} fell by {size} (negative weight)" if falls else f"the reward {name} rose by {size}"
    return f"{row['arm']}: {rose}, and {where} {fell} {course} {since}"


def short(value: float) -> str:
    """A number with three digits after the point; from 100 on without."""
    value = exact(value)  # the summary has the same number in a table
    return (f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}").replace("-", "−")
