"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile, correctness_component
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, all_joined, columns, signal_rows
from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums
from reward_ablation.analysis.training.signals_by_step import step_signals, thinned
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH

SCHEMAS = {
    "rewards_by_step": columns(
        (TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity"), (NUMBER, "mean std"), (COUNT, "rollouts unscored")
    ),
    "signals_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "component_correlations": columns(
        (TEXT, "arm component_a component_b"), (NUMBER, "estimate low high"), (COUNT, "seeds steps")
    ),
    "sampling_gaps": columns((TEXT, "arm"), (COUNT, "seed over up_to completions"), (NUMBER, "gap corrected")),
}

#: Sampling gaps are told apart by quarters of the longest that a completion may have.
QUARTERS = 4


def training_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of `SCHEMAS`. The runs' records and rollouts are checked first."""
    read_runs(study, root, ["rollouts.parquet"])
    of_all = ["step", "problem_id", "total", "advantage", "tokens", "truncated", "sampling_gap", "sampling_corrected"]
    correctness = correctness_component(study)
    parts: dict[str, list[pd.DataFrame]] = {name: [] for name in SCHEMAS}
    sums: dict[str, dict[int, pd.DataFrame]] = {}
    for run in study.runs:
        names = study.scored_in(run)
        of_components = [f"{column}_{name}" for column in ("score", "advantage") for name in names]
        rollouts = read_parquet(root / run.folder / "rollouts.parquet", [*of_all, *of_components])
        weights = {name: run.spec.weights[name] for name in names}
        aggregation = run.spec.training.get("multi_objective_aggregation", "sum_then_normalize")
        single = run.spec.training.get("num_generations") == 1
        known = correctness if correctness and correctness[0] in names else None
        signals = thinned(step_signals(rollouts, weights, aggregation, known, single, run.spec.combine is None))
        longest = run.spec.training.get("max_completion_length", COMPLETION_LENGTH)
        of_run = {
            "rewards_by_step": rewards_by_step(rollouts, names),
            "signals_by_step": signal_rows(signals),
            "sampling_gaps": sampling_gaps(rollouts, longest),
        }
        for name, rows in of_run.items():
            parts[name].append(rows.assign(arm=run.arm, seed=run.seed))
        sums.setdefault(run.arm, {})[run.seed] = pair_sums(rollouts, names, single)
    if study.arms_with_methods:
        arms = ", ".join(study.arms_with_methods)
        print(f"signals_by_step: no covariance with the total in {arms}: they are trained on what a method makes of it")
    parts["component_correlations"] = [
        component_correlations(sums[arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
        if arm in sums
    ]
    return all_joined(SCHEMAS, parts)


def rewards_by_step(rollouts: pd.DataFrame, components: list[str]) -> pd.DataFrame:
    """Mean and standard deviation of rewards and lengths over the rollouts of each step.

    Parameters
    ----------
    rollouts : DataFrame
        step, total, tokens, truncated, and score_<component> for each component.

    Returns
    -------
    Rows (step, quantity) in the order components, total, tokens, truncated. `rollouts` counts the rollouts that have a
    value, and `unscored` those that the component gave None as their score. With no value `mean` is null, with fewer
    than two `std` is.
    """
    sources = {component: f"score_{component}" for component in components}
    sources |= {quantity: quantity for quantity in ("total", "tokens", "truncated")}
    grouped = rollouts[list(sources.values())].astype(float).groupby(rollouts["step"], sort=True)
    parts = []
    for quantity, column in sources.items():
        summary = grouped[column].agg(["mean", "std", "count", "size"])
        summary = summary.rename(columns={"count": "rollouts"}).assign(unscored=summary["size"] - summary["count"])
        parts.append(summary.drop(columns="size").reset_index().assign(quantity=quantity))
    order = {quantity: place for place, quantity in enumerate(sources)}
    table = pd.concat(parts)
    return table.sort_values(["step", "quantity"], key=lambda s: s.map(order) if s.name == "quantity" else s)


def sampling_gaps(rollouts: pd.DataFrame, longest: int) -> pd.DataFrame:
    """Gap between what vLLM sampled by and what is trained, by length: no correction may favour short completions.

    Parameters
    ----------
    rollouts : DataFrame
        tokens; sampling_gap, in nats a token, and sampling_corrected, null where transformers generated.
    longest : int
        Tokens that a completion may have.

    Returns
    -------
    Rows of completions with more than `over` and at most `up_to` tokens: their number, and means over their tokens of
    the `gap` and of what is `corrected`. Empty where vLLM generated none.
    """
    sampled = rollouts[rollouts["sampling_gap"].notna()]
    edges = np.ceil(np.linspace(0, longest, QUARTERS + 1)).astype(int)
    rows = []
    for over, up_to in pairwise(edges):
        some = sampled[sampled["tokens"].between(over + 1, up_to)]
        if len(some):
            means = {
                name: np.average(some[f"sampling_{name}"].astype(float), weights=some["tokens"])
                for name in ("gap", "corrected")
            }
            rows.append({"over": over, "up_to": up_to, "completions": len(some), **means})
    return pd.DataFrame(rows)
