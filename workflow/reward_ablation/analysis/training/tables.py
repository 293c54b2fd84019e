"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile, StudyRun, correctness_component
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, signal_rows
from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums
from reward_ablation.analysis.training.signals_by_step import step_signals, thinned

SCHEMAS = {
    "rewards_by_step": columns(
        (TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity"), (NUMBER, "mean std"), (COUNT, "rollouts unscored")
    ),
    "signals_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "component_correlations": columns(
        (TEXT, "arm component_a component_b"), (NUMBER, "estimate low high"), (COUNT, "seeds steps")
    ),
}


def training_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`, arm by arm. The runs' records and rollouts are checked first."""
    read_runs(study, root, ["rollouts.parquet"])
    correctness = correctness_component(study)
    if study.arms_with_methods:
        arms = ", ".join(study.arms_with_methods)
        print(
            f"signals_by_step: no covariance with the total in {arms}, which a method of combination trains otherwise"
        )
    for arm, runs in groupby(study.runs, key=lambda run: run.arm):
        sums: dict[int, pd.DataFrame] = {}
        for batch in batches(list(runs)):
            names = study.scored_in(batch[0])
            scored_correctness = correctness if correctness and correctness[0] in names else None
            of_batch, of_runs = tables_of_batch(batch, root, names, scored_correctness)
            for name, rows in of_batch.items():
                yield name, rows.assign(arm=arm)
            sums |= of_runs
        yield "component_correlations", component_correlations(sums, arm, study.bootstrap, study.confidence)


def batches(runs: list[StudyRun]) -> list[list[StudyRun]]:
    """Runs that are read together: all runs of an arm, or each run alone where a method combines the components.

    The signals of a method depend on the largest advantage of its run.
    """
    return [[run] for run in runs] if any(run.spec.combine for run in runs) else [runs]


def tables_of_batch(
    runs: list[StudyRun], root: Path, names: list[str], correctness: tuple[str, float] | None
) -> tuple[dict[str, pd.DataFrame], dict[int, pd.DataFrame]]:
    """Parts of the tables from runs with equal specs, without the column arm, and `pair_sums` by seed.

    All runs are tabulated at once, as if they were one: the steps of the second run are numbered after those of the
    first, and so on. `names` are the components that score the runs.
    """
    rollouts, sizes = read_rollouts(runs, root, names)
    spec, seeds = runs[0].spec, [run.seed for run in runs]
    stride = int(rollouts["step"].max()) + 1 if len(rollouts) else 1
    rollouts["step"] += np.repeat(np.arange(len(runs)) * stride, sizes)
    weights = {name: spec.weights[name] for name in names}
    aggregation = spec.training.get("multi_objective_aggregation", "sum_then_normalize")
    single = spec.training.get("num_generations") == 1
    signals = step_signals(rollouts, weights, aggregation, correctness, single, spec.combine is None)
    sums = pair_sums(rollouts, names, single)
    steps_of_run = np.searchsorted(signals.index, np.arange(len(runs) + 1) * stride)
    of_runs = [slice(*ends) for ends in pairwise(steps_of_run)]
    thin = [thinned(signals.iloc[steps]) for steps in of_runs]
    tables = {
        "rewards_by_step": rewards_by_step(rollouts, names),
        "signals_by_step": signal_rows(pd.concat(thin)),
    }
    for table in tables.values():
        run, table["step"] = np.divmod(table["step"].to_numpy(), stride)
        table["seed"] = np.array(seeds)[run]
    by_seed = {seed: sums.iloc[steps] for seed, steps in zip(seeds, of_runs, strict=True)}
    for number, of_seed in enumerate(by_seed.values()):
        of_seed.index = of_seed.index - number * stride
    return tables, by_seed


def read_rollouts(runs: list[StudyRun], root: Path, names: list[str]) -> tuple[pd.DataFrame, list[int]]:
    """The columns of the runs' rollouts that the tables are made of, and the number of rollouts of each run."""
    of_all = ["step", "problem_id", "total", "advantage", "tokens", "truncated"]
    of_components = [f"{column}_{name}" for column in ("score", "advantage") for name in names]
    files = [root / run.folder / "rollouts.parquet" for run in runs]
    return read_parquets(files, [*of_all, *of_components], coded=["problem_id"])


def rewards_by_step(rollouts: pd.DataFrame, components: list[str]) -> pd.DataFrame:
    """Mean and standard deviation of rewards and lengths over the rollouts of each step.

    `rollouts` has step, total, tokens, truncated, and score_<component> for each component. Rows of the result are
    (step, quantity) in the order components, total, tokens, truncated. There `rollouts` counts the rollouts that have a
    value, and `unscored` those whose score is None. `mean` is null without any value, and `std` with fewer than two.
    """
    sources = {component: f"score_{component}" for component in components}
    sources |= {quantity: quantity for quantity in ("total", "tokens", "truncated")}
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
