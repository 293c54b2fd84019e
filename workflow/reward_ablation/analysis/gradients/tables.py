"""Tables of gradients, from the measurements of all runs of a study.

The rule `tables_gradients` calls `write`. This module reads the files and has the columns; its neighbours compute.
`alignment` and the part `split_halves` of `similarity_by_arm` (cosines without the noise of completions) share one
reading of each run's Gram matrices.
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_steps import (
    MeasuredRun,
    effects_on_other_prompts,
    read_step,
    spread_steps,
)
from reward_ablation.analysis.gradients.seed_intervals import means_over_steps_and_seeds
from reward_ablation.analysis.gradients.similarity_by_arm import (
    corrected_by_arm,
    cosines_of_steps,
    cross_prompt_products_of_step,
    similarity_by_arm,
)
from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, write_tables

SCHEMAS = {
    # self to across_blocks: parts of the cosine (`COSINE_AND_PARTS`); definition: alone or share.
    "similarity_by_step": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "layer component_a component_b definition"),
        (NUMBER, "dot cosine cosine_low cosine_high norm_a norm_b"),
        (NUMBER, "self same_prompt cross_prompt across_blocks folding_error"),
    ),
    # part: the cosine, one of its parts, or split_halves; interval: over seeds or steps.
    "similarity_by_arm": columns(
        (TEXT, "arm definition layer component_a component_b part"),
        (NUMBER, "estimate low high folding_error"),
        (COUNT, "seeds steps"),
        (TEXT, "interval"),
    ),
    # weight: of the component in the arm; estimate: change of the component's expected score, to first order, for a
    # step of length 1 in the direction that the arm trained, on prompts that the step did not see.
    "alignment": columns(
        (TEXT, "arm component"), (NUMBER, "weight estimate low high"), (COUNT, "seeds steps"), (TEXT, "interval")
    ),
}

#: Columns of a run's gradients that `similarity_by_step` has too.
GRADIENT_COLUMNS = [name for name in SCHEMAS["similarity_by_step"].names if name not in ("arm", "seed")]

#: Columns of texts that repeat, which are read as categories.
CODED = ["layer", "component_a", "component_b", "definition"]

#: Columns that runs of earlier versions do not have; their values are null.
LATER_COLUMNS = ["folding_error"]

#: Most measured steps, evenly spread, that are read of a run, and of all (of each at least two), as reading takes time.
MOST_OF_RUN, MOST_OF_ALL = 40, 2000

#: (K,) effects on the components of a run, by step.
Effects = dict[int, np.ndarray]


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of gradients, from what all runs measured."""
    write_tables(gradient_tables(study, options.study.parent), SCHEMAS, options.output)


def gradient_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`, arm by arm; records, rollouts and gradients of all runs are checked first."""
    study = study.trained_here  # imported runs have no gradients
    read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    for arm, runs in ((arm, list(runs)) for arm, runs in groupby(study.runs, key=lambda run: run.arm)):
        of_arm, steps_by_folder = similarity_of_runs(runs, root)
        yield "similarity_by_step", of_arm.assign(arm=arm)
        yield "similarity_by_arm", similarity_by_arm(of_arm, arm, study.confidence)
        corrected, aligned = measured_tables(study, root, runs, steps_by_folder)
        yield "similarity_by_arm", corrected
        yield "alignment", aligned


def similarity_of_runs(runs: list[StudyRun], root: Path) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Rows of `similarity_by_step` of the runs of an arm, and the measured steps by run's folder."""
    files = [root / run.folder / "gradients.parquet" for run in runs]
    gradients, sizes = read_parquets(files, GRADIENT_COLUMNS, LATER_COLUMNS, CODED)
    ends = np.cumsum(sizes)
    steps = gradients["step"].to_numpy()
    steps_by_folder = {
        run.folder: np.unique(steps[end - size : end]).tolist()
        for run, size, end in zip(runs, sizes, ends, strict=True)
    }
    seeds = np.repeat([run.seed for run in runs], sizes)
    return similarity_by_step(gradients.assign(seed=seeds)), steps_by_folder


def similarity_by_step(gradients: pd.DataFrame) -> pd.DataFrame:
    """Rows of the pairs of different components, in the run's order; null where a gradient has no direction."""
    # By codes, as comparing the texts of all rows takes long.
    first, second = (gradients[name].astype("category").cat for name in ("component_a", "component_b"))
    return gradients[(first.codes != second.set_categories(first.categories).cat.codes).to_numpy()]


def measured_tables(
    study: StudyFile, root: Path, runs: list[StudyRun], steps_by_folder: dict[str, list[int]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of an arm: of `similarity_by_arm`, the part `split_halves`, and of `alignment`; prints what is left out."""
    most = min(MOST_OF_RUN, max(2, MOST_OF_ALL // max(1, len(study.runs))))
    halves, effects, refused = [], [], Counter[str]()
    for run in runs:
        names = study.scored_in(run)
        steps = spread_steps(steps_by_folder[run.folder], most)
        stored = MeasuredRun(root / run.folder, steps, names)
        of_run: Effects = {}
        split, layers = {}, []
        for step in steps:
            read = read_step(stored, step)
            if isinstance(read, str):
                refused[read] += 1
                continue
            of_run[step] = effects_on_other_prompts(read, [read.own_shares])[0]
            split[step] = cross_prompt_products_of_step(read)
            layers = read.blocks[0].layers
        if split:
            halves.append(cosines_of_steps([*split.values()], layers, names, study.confidence))
        effects.append(of_run)
    arm = runs[0].arm
    for reason, steps_left_out in refused.items():
        print(f"{arm}: {steps_left_out} measured steps left out of alignment and split halves: {reason}")
    aligned = alignment(arm, runs, effects, study) if any(effects) else pd.DataFrame()
    if not halves:
        return pd.DataFrame(), aligned
    step_count = len({step for of_run in effects for step in of_run})
    return corrected_by_arm(pd.concat(halves), step_count, arm, study.confidence), aligned


def alignment(arm: str, runs: list[StudyRun], effects: list[Effects], study: StudyFile) -> pd.DataFrame:
    """Mean effect of an arm's steps on each component that scores it, over steps that have one and then over seeds."""
    names = study.scored_in(runs[0])
    steps = sorted({step for of_run in effects for step in of_run})
    values = np.full((len(names), len(runs), len(steps)), np.nan)
    for run_number, of_run in enumerate(effects):
        for step, effect in of_run.items():
            values[:, run_number, steps.index(step)] = effect
    found = means_over_steps_and_seeds(values, study.confidence)
    known = ~np.isnan(values)
    return pd.DataFrame(
        {
            "arm": arm,
            "component": names,
            "weight": [float(runs[0].spec.weights[name]) for name in names],
            **found._asdict(),
            "seeds": known.any(axis=2).sum(axis=1),
            "steps": known.any(axis=1).sum(axis=1),
        }
    )
