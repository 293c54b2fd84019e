"""Tables of gradients, from the measurements of all runs of a study."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_tables import measured_tables
from reward_ablation.analysis.gradients.similarity_by_arm import similarity_by_arm
from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns

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


def gradient_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`, arm by arm; records, rollouts and gradients of all runs are checked first."""
    read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    for arm, runs in ((arm, list(runs)) for arm, runs in groupby(study.runs, key=lambda run: run.arm)):
        of_arm, measured = similarity_of_runs(runs, root)
        yield "similarity_by_step", of_arm.assign(arm=arm)
        yield "similarity_by_arm", similarity_by_arm(of_arm, arm, study.confidence)
        corrected, aligned = measured_tables(study, root, runs, measured)
        yield "similarity_by_arm", corrected
        yield "alignment", aligned


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
