"""Tables of gradients, from the measurements of all runs of a study."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_tables import measured_tables
from reward_ablation.analysis.gradients.predictors import predictors
from reward_ablation.analysis.gradients.similarity_by_arm import corrected_by_arm, similarity_by_arm
from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, FLAG, NUMBER, TEXT, Parts, columns, joined

SCHEMAS = {
    "similarity_by_step": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "layer component_a component_b definition"),
        (
            NUMBER,
            "dot cosine cosine_low cosine_high norm_a norm_b self same_prompt cross_prompt across_blocks folding_error",
        ),
    ),
    "similarity_by_arm": columns(
        (TEXT, "arm definition layer component_a component_b part"),
        (NUMBER, "estimate low high folding_error"),
        (COUNT, "seeds steps"),
        (TEXT, "interval"),
    ),
    "alignment_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "split_halves": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "layer component_a component_b"),
        (NUMBER, "estimate low high"),
        (COUNT, "prompts"),
    ),
    "harm_by_step": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "component"),
        (NUMBER, "effect error p p_adjusted"),
        (FLAG, "harmful"),
    ),
    "harm_by_arm": columns(
        (TEXT, "arm component"), (NUMBER, "estimate low high"), (COUNT, "seeds steps"), (TEXT, "interval")
    ),
    "what_if": columns(
        (TEXT, "arm"),
        (COUNT, "step point"),
        (TEXT, "component"),
        (NUMBER, "effect low high"),
        (COUNT, "seeds steps"),
        (TEXT, "interval"),
    ),
    "what_if_points": columns((COUNT, "point"), (TEXT, "component"), (NUMBER, "weight")),
    "what_if_check": columns(
        (TEXT, "arm component"),
        (NUMBER, "rewarded"),
        *((NUMBER, f"{name} {name}_low {name}_high") for name in ("predicted", "covariance", "observed")),
        (COUNT, "seeds"),
    ),
    "what_if_agreement": columns(
        (TEXT, "cells rule"), (NUMBER, "estimate low high ahead ahead_low ahead_high"), (COUNT, "changes arms")
    ),
    "predictors": columns(
        (TEXT, "arm predictor component"), (NUMBER, "estimate low high"), (COUNT, "seeds steps window")
    ),
}

#: Columns of a run's gradients that `similarity_by_step` has too.
GRADIENT_COLUMNS = [name for name in SCHEMAS["similarity_by_step"].names if name not in ("arm", "seed")]

#: Columns of texts that repeat, which are read as categories.
CODED = ["layer", "component_a", "component_b", "definition"]

#: Arms with their rows of a table.
ByArm = Iterable[tuple[str, pd.DataFrame]]

#: Columns that runs of earlier versions do not have; their values are null.
LATER_COLUMNS = ["folding_error"]


def gradient_tables(study: StudyFile, root: Path, rewards_by_step: pd.DataFrame, signals_by_step: ByArm) -> Parts:
    """Parts of the tables of `SCHEMAS`, from the gradients of all runs and two tables of training.

    The runs' records, rollouts and gradients are checked first. The predictions of what_if_check are compared with
    `rewards_by_step`. Runs are read arm by arm; `signals_by_step` gives each arm with its rows of that table.
    """
    read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    measured: dict[str, list[int]] = {}
    by_arm: dict[str, pd.DataFrame] = {}
    for arm, runs in groupby(study.runs, key=lambda run: run.arm):
        of_arm, measured_steps = similarity_of_runs(list(runs), root)
        measured |= measured_steps
        by_arm[arm] = similarity_by_arm(of_arm, arm, study.confidence)
        yield "similarity_by_step", of_arm.assign(arm=arm)
    of_measured_steps = measured_tables(study, root, measured, rewards_by_step)
    halves, alignment = (
        dict([*table.groupby("arm", sort=False)])
        if len(table := joined(SCHEMAS[name], of_measured_steps[name]))
        else {}
        for name in ("split_halves", "alignment_by_step")
    )
    for arm in study.arm_names:
        yield "similarity_by_arm", by_arm.get(arm, pd.DataFrame())
        if arm in halves:
            yield "similarity_by_arm", corrected_by_arm(halves[arm], arm, study.confidence)
    for name, parts in of_measured_steps.items():
        for part in parts:
            yield name, part
    predicted = {}
    for arm, signals in signals_by_step:
        known = signals.assign(arm=arm)
        if arm in alignment:
            known = pd.concat([known, alignment[arm]], ignore_index=True)
        predicted[arm] = predictors(known, [arm], study.components, study.bootstrap, study.confidence)
    yield from (("predictors", predicted[arm]) for arm in study.arm_names if arm in predicted)


def similarity_of_runs(runs: list[StudyRun], root: Path) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Rows of `similarity_by_step` of the runs of an arm, and the measured steps by run's folder."""
    files = [root / run.folder / "gradients.parquet" for run in runs]
    gradients, sizes = read_parquets(files, GRADIENT_COLUMNS, LATER_COLUMNS, CODED)
    ends = np.cumsum(sizes)
    steps = gradients["step"].to_numpy()
    measured = {
        run.folder: np.unique(steps[end - size : end]).tolist()
        for run, size, end in zip(runs, sizes, ends, strict=True)
    }
    seeds = np.repeat([run.seed for run in runs], sizes)
    return similarity_by_step(gradients.assign(seed=seeds)), measured


def similarity_by_step(gradients: pd.DataFrame) -> pd.DataFrame:
    """Rows of the pairs of different components, in the run's order; null where a gradient has no direction."""
    first, second = (gradients[name].astype("category").cat for name in ("component_a", "component_b"))
    return gradients[(first.codes != second.set_categories(first.categories).cat.codes).to_numpy()]
