"""Training signals of each component at each step, from the rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

#: Most points along the steps of a run; in longer runs neighbouring steps are averaged, to bound large tables.
MOST_STEPS = 500

#: Scores of a group are alike where they differ by at most this, relative to their size.
ALIKE = 1e-9

#: A method's advantages count as 0, but for rounding, up to this share of the largest advantage of the run.
NO_ADVANTAGE = 1e-6

#: Values by step, for each quantity and component.
Signals = dict[tuple[str, str], np.ndarray]


def step_signals(
    rollouts: pd.DataFrame,
    weights: dict[str, float],
    aggregation: str = "sum_then_normalize",
    correctness: tuple[str, float] | None = None,
    single: bool = False,
    fixed_weights: bool = True,
) -> pd.DataFrame:
    """Signals of each step of one run, by quantity and component.

    A group is the completions of one problem at one step; with one rollout a problem, it is all completions of the
    step. Averages over a step's groups, of values over the scored completions of each group:

    - variance: of the component's raw scores (n - 1), or of the weighted total;
    - covariance: of the raw scores with the weighted total (n - 1); `covariance_with_advantage` with the advantage.
      To first order a component's expected score changes by its covariance with what is trained on, in units of the
      learning rate and for an update of single answers' probabilities (Lu and Jiang, "Uncovering Cross-Objective
      Interference in Multi-Objective Alignment", 2026, arXiv 2602.06869: the covariance law).

    Over the whole step:

    - score: the mean score;
    - alike: the share of groups in which the component scores all completions alike;
    - no_signal: the share of groups without any advantage; with one rollout a problem, of completions without one;
    - advantage_share: mean |share_k| / sum over components j of mean |share_j|, with share_k the part of the advantage
      that component k contributes (so that components that cancel each other count, too);
    - tokens_correct, tokens_wrong: the mean lengths of right and of wrong completions.

    `rollouts` has step, problem_id, tokens, total, advantage, score_<component> and advantage_<component>. `weights`
    are the run's, of all components. `correctness` is the component that scores correctness, with the lowest score of a
    right completion. `single` says that the run has one rollout a problem.

    `aggregation` is TRL's `multi_objective_aggregation`. Under `normalize_then_sum` a group is without signal where the
    scores of every component of non-zero weight are alike, else where the weighted totals are. `fixed_weights` says
    that TRL combines the scores by the weights. Else the total is not what is trained on: its variance and the
    covariances with it are NaN, and a group is without signal where all its advantages are 0 but for rounding.

    The result has a row per step in ascending order, and columns (quantity, component), where component is "" for all
    components. NaN where nothing is known: no group with two scores, no advantage, no right completion.
    """
    places = CompletionGroups.of(rollouts, single)
    scores = {name: rollouts[f"score_{name}"].to_numpy(dtype=float) for name in weights}
    alike = {name: all_alike(values, places.group, places.groups) for name, values in scores.items()}
    if fixed_weights:
        weighted = [alike[name] for name in weights if weights[name]]
        columns = signals_of_all(rollouts, places, weighted, aggregation, single)
    else:
        rollouts = rollouts.assign(total=np.nan)
        columns = signals_of_method(rollouts, places)
    shares = advantage_shares(rollouts, places, list(weights))
    for name, values in scores.items():
        columns |= signals_of_component(rollouts, places, name, values, alike[name], shares[name])
    if correctness is not None:
        name, right = correctness
        tokens = rollouts["tokens"].to_numpy(dtype=float)
        columns["tokens_correct", name] = places.over_completions(np.where(scores[name] >= right, tokens, np.nan))
        columns["tokens_wrong", name] = places.over_completions(np.where(scores[name] < right, tokens, np.nan))
    names = labels_of(("quantity", "component"), *columns)
    return pd.DataFrame(np.array(list(columns.values())).T, index=pd.Index(places.steps, name="step"), columns=names)


def signals_of_all(
    rollouts: pd.DataFrame, places: CompletionGroups, weighted: list[np.ndarray], aggregation: str, single: bool
) -> Signals:
    """Signals of all components together.

    `weighted` says for each component of non-zero weight in which groups all its scores are alike.
    """
    total, advantage = (rollouts[name].to_numpy(dtype=float) for name in ("total", "advantage"))
    if aggregation == "sum_then_normalize":
        weighted = [all_alike(total, places.group, places.groups)]
    if single:
        no_signal = places.over_completions((advantage == 0).astype(float))
    else:
        without = np.logical_and.reduce(weighted).astype(float) if weighted else np.ones(places.groups)
        no_signal = places.over_groups(without)
    return {("no_signal", ""): no_signal, ("variance", ""): places.covariance(total, total)}


def signals_of_method(rollouts: pd.DataFrame, places: CompletionGroups) -> Signals:
    """Signals of all components together where a method combines them, by the advantages that it gave."""
    size = np.abs(rollouts["advantage"].to_numpy(dtype=float))
    moved = np.zeros(places.groups, dtype=bool)
    moved[places.group[size > NO_ADVANTAGE * size.max(initial=0.0)]] = True
    no_signal = places.over_groups((~moved).astype(float))
    return {("no_signal", ""): no_signal, ("variance", ""): np.full(len(places.steps), np.nan)}


def advantage_shares(rollouts: pd.DataFrame, places: CompletionGroups, components: list[str]) -> dict[str, np.ndarray]:
    """Share of each component in the size of the advantages, by step; NaN where no completion has an advantage."""
    parts = [np.abs(rollouts[f"advantage_{name}"].to_numpy(dtype=float)) for name in components]
    sizes = np.array([places.over_completions(values) for values in parts])
    together = sizes.sum(axis=0)
    unknown = np.full(len(places.steps), np.nan)
    return {
        name: np.divide(own, together, out=unknown.copy(), where=together > 0)
        for name, own in zip(components, sizes, strict=True)
    }


def signals_of_component(
    rollouts: pd.DataFrame,
    places: CompletionGroups,
    name: str,
    scores: np.ndarray,
    alike: np.ndarray,
    share: np.ndarray,
) -> Signals:
    """Signals of one component, in their order in the table."""
    total, advantage = (rollouts[column].to_numpy(dtype=float) for column in ("total", "advantage"))
    return {
        ("score", name): places.over_completions(scores),
        ("variance", name): places.covariance(scores, scores),
        ("alike", name): places.over_groups(alike.astype(float)),
        ("advantage_share", name): share,
        ("covariance", name): places.covariance(scores, total),
        ("covariance_with_advantage", name): places.covariance(scores, advantage),
    }


@dataclass(frozen=True)
class CompletionGroups:
    """The step and the group of each of a run's N completions, in T steps and G groups."""

    steps: np.ndarray  # (T,) steps in ascending order
    step: np.ndarray  # (N,) index of each completion's step in `steps`
    group: np.ndarray  # (N,) number of each completion's group
    step_of_group: np.ndarray  # (G,) index of each group's step in `steps`

    @classmethod
    def of(cls, rollouts: pd.DataFrame, single: bool) -> CompletionGroups:
        """CompletionGroups of a run's completions; `single` says that a problem has one rollout, as in `groups_of`."""
        steps, step = np.unique(rollouts["step"].to_numpy(), return_inverse=True)
        group = groups_of(rollouts, step, single)
        step_of_group = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
        step_of_group[group] = step
        return cls(steps, step, group, step_of_group)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.step_of_group)

    def over_groups(self, values: np.ndarray) -> np.ndarray:
        """Means of the groups' values by step."""
        return means_by(values, self.step_of_group, len(self.steps))

    def over_completions(self, values: np.ndarray) -> np.ndarray:
        """Means of the completions' values by step."""
        return means_by(values, self.step, len(self.steps))

    def covariance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Covariance within groups, averaged over the groups of each step."""
        return self.over_groups(covariances(first, second, self.group, self.groups))


def groups_of(rollouts: pd.DataFrame, step: np.ndarray, single: bool) -> np.ndarray:
    """Number of each completion's group; groups are numbered in the order of their first completions.

    The completions of one problem at one step are a group; if `single`, a problem has one rollout, and all completions
    of a step are a group. `step` has the index of each completion's step.
    """
    if single:
        return step
    problem = pd.factorize(rollouts["problem_id"])[0].astype(np.int64)
    return np.asarray(pd.factorize(step * (problem.max(initial=0) + 1) + problem)[0])


@cache
def labels_of(names: tuple[str, ...], *columns: tuple[str, ...]) -> pd.MultiIndex:
    """Labels of columns with several levels, cached since all runs have the same."""
    return pd.MultiIndex.from_tuples(columns, names=names)


def means_by(values: np.ndarray, unit: np.ndarray, units: int) -> np.ndarray:
    """Mean of the values of each unit that are not NaN; NaN where there is none."""
    known = ~np.isnan(values)
    if not known.all():
        values, unit = values[known], unit[known]
    counts = np.bincount(unit, minlength=units)
    sums = np.bincount(unit, weights=values, minlength=units)
    return np.divide(sums, counts, out=np.full(units, np.nan), where=counts > 0)


def centred(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Values less the mean of their group; NaN stays."""
    return values - means_by(values, group, groups)[group]


def covariances(first: np.ndarray, second: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Covariance (n - 1) within each group, over the completions with both values; NaN with fewer than two."""
    both = ~np.isnan(first) & ~np.isnan(second)
    if not both.all():
        first, second, group = first[both], second[both], group[both]
    products = centred(first, group, groups) * centred(second, group, groups)
    counts = np.bincount(group, minlength=groups)
    sums = np.bincount(group, weights=products, minlength=groups)
    return np.divide(sums, counts - 1, out=np.full(groups, np.nan), where=counts > 1)


def all_alike(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Whether the known values of each group are equal, which is also so where none is known."""
    known = ~np.isnan(values)
    low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low, group[known], values[known])
    np.maximum.at(high, group[known], values[known])
    size = np.maximum(1.0, np.maximum(np.abs(np.nan_to_num(low)), np.abs(np.nan_to_num(high))))
    return (high <= low) | (high - low <= ALIKE * size)


def thinned(signals: pd.DataFrame, most: int = MOST_STEPS) -> pd.DataFrame:
    """Average neighbouring steps, so that at most `most` rows are left; a row has the number of its last step."""
    width = -(-len(signals) // most)
    if width <= 1:
        return signals
    point = np.arange(len(signals)) // width
    last = signals.index.to_numpy()[np.append(np.flatnonzero(np.diff(point)), len(signals) - 1)]
    return signals.groupby(point).mean().set_axis(pd.Index(last, name="step"))
