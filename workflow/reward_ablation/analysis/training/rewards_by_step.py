"""Rewards and lengths of rollouts over the steps of a run."""

from __future__ import annotations

import pandas as pd


def rewards_by_step(rollouts: pd.DataFrame, components: list[str]) -> pd.DataFrame:
    """Mean and standard deviation over the rollouts of each step.

    Parameters
    ----------
    rollouts : DataFrame
        step, total, tokens, truncated, and score_<component> for each component.

    Returns
    -------
    Rows (step, quantity) in the order components, total, tokens, truncated. `rollouts` counts the
    rollouts that have a value, `unscored` those that have none: the component gave them None as their score. With no
    value `mean` is null, with fewer than two `std` is.
    """
    columns = {component: f"score_{component}" for component in components}
    columns |= {quantity: quantity for quantity in ("total", "tokens", "truncated")}
    grouped = rollouts[list(columns.values())].astype(float).groupby(rollouts["step"], sort=True)
    parts = []
    for quantity, column in columns.items():
        summary = grouped[column].agg(["mean", "std", "count", "size"])
        summary = summary.rename(columns={"count": "rollouts"}).assign(unscored=summary["size"] - summary["count"])
        parts.append(summary.drop(columns="size").reset_index().assign(quantity=quantity))
    order = {quantity: place for place, quantity in enumerate(columns)}
    table = pd.concat(parts)
    return table.sort_values(["step", "quantity"], key=lambda s: s.map(order) if s.name == "quantity" else s)
