"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from argparse import Namespace
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.runs import read_rollouts, read_runs
from reward_ablation.analysis.study_file import StudyFile, correctness_component
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, signal_rows, write_tables
from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums
from reward_ablation.analysis.training.signals_by_step import step_signals, thinned
from reward_ablation.config.sections.combine import AGGREGATION

SCHEMAS = {
    "rewards_by_step": columns(
        (TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity"), (NUMBER, "mean std"), (COUNT, "rollouts unscored")
    ),
    "signals_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "component_correlations": columns(
        (TEXT, "arm component_a component_b"), (NUMBER, "estimate low high"), (COUNT, "seeds steps")
    ),
}


#: Columns of the rollouts that the tables are made of, and beginnings of the columns of each component.
OF_ALL = ["step", "problem_id", "total", "advantage", "tokens", "truncated"]
OF_EACH = ["score", "advantage"]
OF_RUN = ["total", "tokens", "truncated"]


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of rewards and training signals, from the rollouts of all runs."""
    write_tables(training_tables(study, options.study.parent), SCHEMAS, options.output)


def training_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`, run by run. The runs' records and rollouts are checked first."""
    read_runs(study, root, ["rollouts.parquet"])
    correctness = correctness_component(study)
    if study.arms_with_methods:
        arms = ", ".join(study.arms_with_methods)
        print(
            f"signals_by_step: no covariance with the total in {arms}, which a method of combination trains otherwise"
        )
    for arm, runs in groupby(study.runs, key=lambda run: run.arm):
        sums: dict[int, pd.DataFrame] = {}
        for run in runs:
            names, spec = study.scored_in(run), run.spec
            rollouts = read_rollouts([run], root, [*OF_ALL, *(f"{of}_{name}" for of in OF_EACH for name in names)])
            single = spec.training.get("num_generations") == 1
            signals = step_signals(
                rollouts,
                {name: spec.weights[name] for name in names},
                spec.training.get(AGGREGATION, "sum_then_normalize"),
                correctness if correctness and correctness[0] in names else None,
                single,
                spec.combine is None,
            )
            rewards = rewards_by_step(rollouts, names).assign(arm=arm, seed=run.seed)
            # The files of an imported run may lack the total, lengths and truncation.
            known = [*names, *(name for name in OF_RUN if rollouts[name].notna().any())]
            yield "rewards_by_step", rewards[rewards["quantity"].isin(known)]
            yield "signals_by_step", signal_rows(thinned(signals)).assign(arm=arm, seed=run.seed)
            sums[run.seed] = pair_sums(rollouts, names, single)
        yield "component_correlations", component_correlations(sums, arm, study.bootstrap, study.confidence)


def rewards_by_step(rollouts: pd.DataFrame, components: list[str]) -> pd.DataFrame:
    """Mean and standard deviation of rewards and lengths over the rollouts of each step.

    `rollouts` has step, total, tokens, truncated, and score_<component> for each component. Rows of the result are
    (step, quantity) in the order components, total, tokens, truncated. There `rollouts` counts the rollouts that have a
    value, and `unscored` those whose score is None. `mean` is null without any value, and `std` with fewer than two.
    """
    sources = {component: f"score_{component}" for component in components}
    sources |= {quantity: quantity for quantity in OF_RUN}
    values = rollouts[list(sources.values())].astype(float)
    whole = values.columns[values.notna().all()]
    # pandas rounds the mean of a column differently where another column of the table has gaps.
    parts = [list(whole), *([name] for name in values.columns.difference(whole, sort=False))]
    grouped = [values[names].groupby(rollouts["step"], sort=True) for names in parts if names]
    mean, std, known = (
        pd.concat([getattr(part, of)() for part in grouped], axis="columns")[values.columns]
        for of in ("mean", "std", "count")
    )
    size = grouped[0].size().to_numpy()
    return pd.DataFrame(
        {
            "step": np.repeat(known.index.to_numpy(), len(sources)),
            "mean": mean.to_numpy().ravel(),
            "std": std.to_numpy().ravel(),
            "rollouts": known.to_numpy().ravel(),
            "unscored": (size[:, None] - known.to_numpy()).ravel(),
            "quantity": np.tile(np.array(list(sources), dtype=object), len(known)),
        }
    )
