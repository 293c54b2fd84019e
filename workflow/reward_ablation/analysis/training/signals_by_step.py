"""What the rollouts of a step tell the training about each component."""

from __future__ import annotations

import numpy as np
import pandas as pd

#: Most steps of a run that a table keeps apart; beyond, neighbours are averaged, which bounds tables of large studies.
MOST_STEPS = 500

#: Quantities of all components together and of each, in their order in the table.
OF_ALL = ["no_signal", "variance"]
OF_COMPONENTS = ["score", "variance", "alike", "advantage_share", "covariance", "covariance_with_advantage"]
OF_CORRECTNESS = ["tokens_correct", "tokens_wrong"]

#: Scores of a group that differ by less, relative to their size, are all alike.
ALIKE = 1e-9

#: Quantity and component ("" for all) of a column.
COLUMNS = ["quantity", "component"]


def step_signals(
    rollouts: pd.DataFrame,
    weights: dict[str, float],
    aggregation: str = "sum_then_normalize",
    correctness: tuple[str, float] | None = None,
    single: bool = False,
) -> pd.DataFrame:
    """Signals of each step of one run, by quantity and component.

    A group is the completions of one problem at one step, or with one rollout a problem those of the step. Per group,
    over the completions that have a score:

    - variance: of the component's raw scores (n - 1), or of the weighted total;
    - covariance: of the raw scores with the weighted total (n - 1); `covariance_with_advantage` with the advantage.
      To first order a component's expected score changes by its covariance with what is trained on, in units of the
      learning rate and for an update of single answers' probabilities (Lu and Jiang, "Uncovering Cross-Objective
      Interference in Multi-Objective Alignment", 2026, arXiv 2602.06869: the covariance law);

    each averaged over the step's groups. And over the step: `score`, the mean score; `alike`, the share of groups in
    which the component tells no completion from another; `no_signal`, the share of groups without any advantage, or
    with one rollout a problem of completions without one;
    `advantage_share`, mean |share_k| / sum over components j of mean |share_j|, with share_k the part of the advantage
    that component k contributes (so that components that cancel each other count, too); `tokens_correct` and
    `tokens_wrong`, the mean lengths of right and of wrong completions.

    Parameters
    ----------
    rollouts : DataFrame
        step, problem_id, tokens, total, advantage, score_<component> and advantage_<component>.
    weights : dict of str to float
        Of the run, for all components.
    aggregation : str
        TRL's `multi_objective_aggregation`. Under `normalize_then_sum` a group is without signal where every
        component of non-zero weight is alike, else where the weighted total is.
    correctness : (str, float), optional
        The component that tells right completions, and the lowest score of one.
    single : bool
        Whether the run has one rollout a problem.

    Returns
    -------
    DataFrame
        A row per step in ascending order; columns `COLUMNS`, component "" for all components. NaN where nothing is
        known: no group with two scores, no advantage, no right completion.
    """
    step_values, step = np.unique(rollouts["step"].to_numpy(), return_inverse=True)
    group = groups_of(rollouts, step, single)
    steps, groups = len(step_values), int(group.max(initial=-1)) + 1
    step_of_group = np.zeros(groups, dtype=np.int64)
    step_of_group[group] = step

    def over_groups(values: np.ndarray) -> np.ndarray:
        return means_by(values, step_of_group, steps)

    def over_completions(values: np.ndarray) -> np.ndarray:
        return means_by(values, step, steps)

    scores = {name: rollouts[f"score_{name}"].to_numpy(dtype=float) for name in weights}
    total, advantage = (rollouts[name].to_numpy(dtype=float) for name in ("total", "advantage"))
    alike = {name: all_alike(values, group, groups) for name, values in scores.items()}
    weighted = [alike[name] for name, weight in weights.items() if weight]
    if aggregation == "sum_then_normalize":
        weighted = [all_alike(total, group, groups)]
    sizes = np.array(
        [over_completions(np.abs(rollouts[f"advantage_{name}"].to_numpy(dtype=float))) for name in weights]
    )
    all_sizes = sizes.sum(axis=0)
    without = over_groups(np.logical_and.reduce(weighted).astype(float) if weighted else np.ones(groups))
    columns: dict[tuple[str, str], np.ndarray] = {
        ("no_signal", ""): over_completions((advantage == 0).astype(float)) if single else without,
        ("variance", ""): over_groups(covariances(total, total, group, groups)),
    }
    for place, (name, values) in enumerate(scores.items()):
        of_component = {
            "score": over_completions(values),
            "variance": over_groups(covariances(values, values, group, groups)),
            "alike": over_groups(alike[name].astype(float)),
            "advantage_share": np.divide(sizes[place], all_sizes, out=np.full(steps, np.nan), where=all_sizes > 0),
            "covariance": over_groups(covariances(values, total, group, groups)),
            "covariance_with_advantage": over_groups(covariances(values, advantage, group, groups)),
        }
        columns |= {(quantity, name): of_component[quantity] for quantity in OF_COMPONENTS}
    if correctness is not None:
        name, right = correctness
        tokens = rollouts["tokens"].to_numpy(dtype=float)
        columns["tokens_correct", name] = over_completions(np.where(scores[name] >= right, tokens, np.nan))
        columns["tokens_wrong", name] = over_completions(np.where(scores[name] < right, tokens, np.nan))
    names = pd.MultiIndex.from_tuples(list(columns), names=COLUMNS)
    return pd.DataFrame(np.array(list(columns.values())).T, index=pd.Index(step_values, name="step"), columns=names)


def groups_of(rollouts: pd.DataFrame, step: np.ndarray, single: bool) -> np.ndarray:
    """Number of each completion's group: of its problem and step, or with one rollout a problem of its step."""
    return step if single else rollouts.groupby(["step", "problem_id"], sort=False).ngroup().to_numpy()


def means_by(values: np.ndarray, unit: np.ndarray, units: int) -> np.ndarray:
    """Mean over the values of each unit that are not NaN; NaN where there is none."""
    known = ~np.isnan(values)
    counts = np.bincount(unit[known], minlength=units)
    sums = np.bincount(unit[known], weights=values[known], minlength=units)
    return np.divide(sums, counts, out=np.full(units, np.nan), where=counts > 0)


def centred(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Values less the mean of their group; NaN stays."""
    return values - means_by(values, group, groups)[group]


def covariances(first: np.ndarray, second: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Covariance (n - 1) within each group, over the completions with both values; NaN with fewer than two."""
    both = ~np.isnan(first) & ~np.isnan(second)
    first, second, group = first[both], second[both], group[both]
    products = centred(first, group, groups) * centred(second, group, groups)
    counts = np.bincount(group, minlength=groups)
    sums = np.bincount(group, weights=products, minlength=groups)
    return np.divide(sums, counts - 1, out=np.full(groups, np.nan), where=counts > 1)


def all_alike(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Tell for each group whether its known values are one, or none is known."""
    known = ~np.isnan(values)
    low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low, group[known], values[known])
    np.maximum.at(high, group[known], values[known])
    size = np.maximum(1.0, np.maximum(np.abs(np.nan_to_num(low)), np.abs(np.nan_to_num(high))))
    return (high <= low) | (high - low <= ALIKE * size)


def thinned(signals: pd.DataFrame, most: int = MOST_STEPS) -> pd.DataFrame:
    """Average neighbouring steps, so that no more than `most` rows are left; a row has its last step's number."""
    width = -(-len(signals) // most)
    if width <= 1:
        return signals
    point = np.arange(len(signals)) // width
    last = signals.index.to_numpy()[np.append(np.flatnonzero(np.diff(point)), len(signals) - 1)]
    return signals.groupby(point).mean().set_axis(pd.Index(last, name="step"))
