"""Tables of training from all rollouts: rewards and training signals by step, and correlations of components.

The rule `tables_training` calls `write`. The signs of reward hacking and the figures of training start from its tables,
so that these need not read all completions again.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from functools import cache
from itertools import combinations, groupby
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.runs import read_rollouts, read_runs
from reward_ablation.analysis.statistics.intervals import (
    block_length,
    block_shares,
    generator,
    percentile_interval,
    resampling_shares,
)
from reward_ablation.analysis.study_file import StudyFile, correctness_component
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, write_tables
from reward_ablation.config.sections.training import AGGREGATION

SCHEMAS = {
    "rewards_by_step": columns(
        (TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity"), (NUMBER, "mean std"), (COUNT, "rollouts unscored")
    ),
    "signals_by_step": columns((TEXT, "arm"), (COUNT, "seed step"), (TEXT, "quantity component"), (NUMBER, "value")),
    "component_correlations": columns(
        (TEXT, "arm component_a component_b"), (NUMBER, "estimate low high"), (COUNT, "seeds steps")
    ),
}

#: Columns of the rollouts that the tables are made of; what begins a component's columns, as in `score_format`; and
#: what `rewards_by_step` has beside the components.
OF_ALL = ["step", "problem_id", "total", "advantage", "tokens", "truncated"]
OF_EACH = ["score", "advantage"]
OF_RUN = ["total", "tokens", "truncated"]

#: Most rows of a run and signal in `signals_by_step`: in longer runs neighbouring steps are averaged. `rewards_by_step`
#: keeps every step, because the report averages its last tenth.
MOST_STEPS = 500

#: Scores of a group are alike where they differ by at most this, times their size or 1, whichever is larger.
ALIKE = 1e-9

#: A method's advantages count as 0, but for rounding, up to this share of the largest advantage of the run. Methods
#: come from solvers, whose rounding is larger than that of one function's scores.
NO_ADVANTAGE = 1e-6


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of rewards and training signals, from the rollouts of all runs."""
    write_tables(training_tables(study, options.study.parent), SCHEMAS, options.output)


def training_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`, run by run. The runs' records and rollouts are checked first."""
    read_runs(study, root, ["rollouts.parquet"])
    correctness = correctness_component(study)
    if arms := ", ".join(study.arms_off_the_total):
        print(f"signals_by_step: no covariance with the total in {arms}: not trained on it")
    for arm, runs in groupby(study.runs, key=lambda run: run.arm):
        sums: dict[int, pd.DataFrame] = {}
        for run in runs:
            names, spec = study.scored_in(run), run.spec
            own_columns = [f"{kind}_{name}" for kind in OF_EACH for name in names]
            rollouts = read_rollouts([run], root, [*OF_ALL, *own_columns])
            single = spec.training.get("num_generations") == 1
            signals = step_signals(
                rollouts,
                {name: spec.weights[name] for name in names},
                None if spec.combine else spec.training.get(AGGREGATION, "sum_then_normalize"),
                correctness if correctness and correctness[0] in names else None,
                single,
                run.is_trained_on_total,
            )
            rewards = rewards_by_step(rollouts, names).assign(arm=arm, seed=run.seed)
            # The files of an imported run may lack the total, lengths and truncation.
            known = [*names, *(name for name in OF_RUN if rollouts[name].notna().any())]
            yield "rewards_by_step", rewards[rewards["quantity"].isin(known)]
            yield "signals_by_step", signal_rows(thinned(signals)).assign(arm=arm, seed=run.seed)
            sums[run.seed] = pair_sums(rollouts, names, single)
        yield "component_correlations", component_correlations(sums, arm, study.bootstrap, study.confidence)


def rewards_by_step(rollouts: pd.DataFrame, components: list[str]) -> pd.DataFrame:
    """Mean and standard deviation of scores, total, lengths and truncation over a step's rollouts with a value."""
    sources = {component: f"score_{component}" for component in components}
    sources |= {quantity: quantity for quantity in OF_RUN}
    values = rollouts[list(sources.values())].astype(float)
    whole = values.columns[values.notna().all()]
    # pandas rounds the mean of a column differently where another column of the table has gaps.
    parts = [list(whole), *([name] for name in values.columns.difference(whole, sort=False))]
    grouped = [values[names].groupby(rollouts["step"], sort=True) for names in parts if names]
    mean, std, known = (
        pd.concat([getattr(part, statistic)() for part in grouped], axis="columns")[values.columns]
        for statistic in ("mean", "std", "count")
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


@dataclass(frozen=True)
class Groups:
    """Step and group of N completions. A group is of a problem at a step; with one rollout a problem it is the step."""

    steps: np.ndarray  # (T,) steps in ascending order
    step: np.ndarray  # (N,) index of each completion's step in `steps`
    group: np.ndarray  # (N,) number of each completion's group, in the order of their first completions
    step_of_group: np.ndarray  # (G,) index of each group's step in `steps`

    @classmethod
    def of(cls, rollouts: pd.DataFrame, single: bool) -> Groups:
        """Groups of a run's completions; `single` says that a problem has one rollout."""
        steps, step = np.unique(rollouts["step"].to_numpy(), return_inverse=True)
        problem = pd.factorize(rollouts["problem_id"])[0].astype(np.int64)
        group = step if single else pd.factorize(step * (problem.max(initial=0) + 1) + problem)[0]
        step_of_group = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
        step_of_group[group] = step
        return cls(steps, step, np.asarray(group), step_of_group)

    def over_groups(self, values: np.ndarray) -> np.ndarray:
        """(T,) means of the values of the groups."""
        return means_by(values, self.step_of_group, len(self.steps))

    def over_completions(self, values: np.ndarray) -> np.ndarray:
        """(T,) means of the values of the completions."""
        return means_by(values, self.step, len(self.steps))

    def centred(self, values: np.ndarray) -> np.ndarray:
        """(N,) values less their group's mean of those that are known (not NaN), 0 where these are alike; NaN stays."""
        centred = values - means_by(values, self.group, len(self.step_of_group))[self.group]
        return np.where(self.alike(values)[self.group], 0.0 * values, centred)  # the mean of equal values is rounded

    def covariance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """(T,) covariances (n - 1) within groups, over completions with both values; needs a group with two of them."""
        both = ~np.isnan(first) & ~np.isnan(second)
        products = self.centred(np.where(both, first, np.nan)) * self.centred(np.where(both, second, np.nan))
        group, groups = self.group[both], len(self.step_of_group)
        counts, sums = (np.bincount(group, weights, groups) for weights in (None, products[both]))
        return self.over_groups(np.divide(sums, counts - 1, out=np.full(groups, np.nan), where=counts > 1))

    def alike(self, values: np.ndarray) -> np.ndarray:
        """(G,) whether the known values of each group are equal, which is also so where none is known."""
        known, groups = ~np.isnan(values), len(self.step_of_group)
        low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
        np.minimum.at(low, self.group[known], values[known])
        np.maximum.at(high, self.group[known], values[known])
        size = np.maximum(1.0, np.maximum(np.abs(np.nan_to_num(low)), np.abs(np.nan_to_num(high))))
        return (high <= low) | (high - low <= ALIKE * size)


def means_by(values: np.ndarray, unit: np.ndarray, units: int) -> np.ndarray:
    """Mean by unit (a step or a group) of the values that are not NaN; NaN where a unit has none."""
    known = ~np.isnan(values)
    if not known.all():
        values, unit = values[known], unit[known]
    counts, sums = (np.bincount(unit, weights, units) for weights in (None, values))
    return np.divide(sums, counts, out=np.full(units, np.nan), where=counts > 0)


def _no_signal(groups: Groups, trained_on: list[np.ndarray] | None, advantage: np.ndarray, single: bool) -> np.ndarray:
    """Share by step of groups, or completions, without an advantage; `trained_on`: by score, which groups are alike."""
    if trained_on is None:
        return groups.over_groups(without_advantage(advantage, groups))
    if single:
        return groups.over_completions((advantage == 0).astype(float))
    all_alike = np.array(trained_on, dtype=bool).reshape(len(trained_on), len(groups.step_of_group)).all(axis=0)
    return groups.over_groups(all_alike.astype(float))


def step_signals(
    rollouts: pd.DataFrame,
    weights: dict[str, float],
    aggregation: str | None = "sum_then_normalize",
    correctness: tuple[str, float] | None = None,
    single: bool = False,
    of_total: bool = True,
) -> pd.DataFrame:
    """Signals of each step of one run: a row per step, and columns (quantity, component), "" for all components.

    Averages over a step's groups, of values over the scored completions of each group:

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

    `correctness` is the component that scores correctness, with the lowest score of a right completion. `single` says
    that the run has one rollout a problem. `aggregation` is TRL's `multi_objective_aggregation`, None where a method
    combines the scores. Without `of_total` the total is not what is trained on: its variance and the covariances with
    it are NaN. NaN also where nothing is known: no group with two scores, no advantage.
    """
    groups = Groups.of(rollouts, single)
    total, advantage, tokens = (rollouts[name].to_numpy(dtype=float) for name in ("total", "advantage", "tokens"))
    total = total if of_total else np.full(len(total), np.nan)
    scores = {name: rollouts[f"score_{name}"].to_numpy(dtype=float) for name in weights}
    alike = {name: groups.alike(values) for name, values in scores.items()}
    of_sum = aggregation == "sum_then_normalize"
    trained_on = [groups.alike(total)] if of_sum else [alike[name] for name in weights if weights[name]]
    no_signal = _no_signal(groups, trained_on if aggregation else None, advantage, single)
    values = {("no_signal", ""): no_signal, ("variance", ""): groups.covariance(total, total)}
    parts = [np.abs(rollouts[f"advantage_{name}"].to_numpy(dtype=float)) for name in weights]
    sizes = np.array([groups.over_completions(part) for part in parts])
    together = sizes.sum(axis=0)
    shares = np.divide(sizes, together, out=np.full(sizes.shape, np.nan), where=together > 0)
    for (name, own), share in zip(scores.items(), shares, strict=True):
        values |= {
            ("score", name): groups.over_completions(own),
            ("variance", name): groups.covariance(own, own),
            ("alike", name): groups.over_groups(alike[name].astype(float)),
            ("advantage_share", name): share,
            ("covariance", name): groups.covariance(own, total),
            ("covariance_with_advantage", name): groups.covariance(own, advantage),
        }
    if correctness is not None:
        name, right = correctness
        values["tokens_correct", name] = groups.over_completions(np.where(scores[name] >= right, tokens, np.nan))
        values["tokens_wrong", name] = groups.over_completions(np.where(scores[name] < right, tokens, np.nan))
    names = labels_of(("quantity", "component"), *values)
    return pd.DataFrame(np.array(list(values.values())).T, index=pd.Index(groups.steps, name="step"), columns=names)


def without_advantage(advantage: np.ndarray, groups: Groups) -> np.ndarray:
    """(G,) 1.0 where a method of combination gave no completion of the group an advantage, but for rounding."""
    size = np.abs(advantage)
    without = np.ones(len(groups.step_of_group))
    without[groups.group[size > NO_ADVANTAGE * size.max(initial=0.0)]] = 0.0
    return without


@cache
def labels_of(names: tuple[str, ...], *columns: tuple[str, ...]) -> pd.MultiIndex:
    """Labels of columns with several levels, cached because all runs with the same components have the same."""
    return pd.MultiIndex.from_tuples(columns, names=names)


def thinned(signals: pd.DataFrame, most: int = MOST_STEPS) -> pd.DataFrame:
    """Average neighbouring steps, so that at most `most` rows are left; a row has the number of its last step."""
    width = -(-len(signals) // most)
    if width <= 1:
        return signals
    point = np.arange(len(signals)) // width
    last = signals.index.to_numpy()[np.append(np.flatnonzero(np.diff(point)), len(signals) - 1)]
    return signals.groupby(point).mean().set_axis(pd.Index(last, name="step"))


def signal_rows(signals: pd.DataFrame) -> pd.DataFrame:
    """`step_signals` as rows (step, quantity, component, value); component is null for a signal of all components."""
    rows, width = signals.shape
    quantities, components = (np.array(level, dtype=object) for level in zip(*signals.columns, strict=True))
    return pd.DataFrame(
        {
            "step": np.repeat(signals.index.to_numpy(), width),
            "quantity": np.tile(quantities, rows),
            "component": np.tile([name or None for name in components], rows),
            "value": signals.to_numpy().ravel(),
        }
    )


def pair_sums(rollouts: pd.DataFrame, components: list[str], single: bool = False) -> pd.DataFrame:
    """Sums by step of products of two scores' deviations from group means: columns (component_a, component_b, sum)."""
    groups = Groups.of(rollouts, single)
    scores = {name: rollouts[f"score_{name}"].to_numpy(dtype=float) for name in components}
    sums: dict[tuple[str, str, str], np.ndarray] = {}
    for first, second in combinations(components, 2):
        both = ~np.isnan(scores[first]) & ~np.isnan(scores[second])
        a, b = (groups.centred(np.where(both, scores[name], np.nan))[both] for name in (first, second))
        for name, products in {"ab": a * b, "aa": a * a, "bb": b * b}.items():
            sums[first, second, name] = np.bincount(groups.step[both], products, len(groups.steps))
    index = pd.Index(groups.steps, name="step")
    if not sums:
        return pd.DataFrame(index=index)
    names = labels_of(("component_a", "component_b", "sum"), *sums)
    return pd.DataFrame(np.array(list(sums.values())).T, index=index, columns=names)


def component_correlations(sums: dict[int, pd.DataFrame], arm: str, resamples: int, confidence: float) -> pd.DataFrame:
    """Pooled within-group correlation of each pair of scores in one arm; null if a score never differs in a group."""
    # Of deviations from the group's mean, so that easy problems do not raise it, unless a problem has one rollout.
    # Resamples draw seeds, and blocks of steps once for all seeds.
    steps = sorted(set().union(*(table.index for table in sums.values())))
    pairs = list(dict.fromkeys(label[:2] for label in next(iter(sums.values())).columns))
    if not steps or not pairs:
        return pd.DataFrame()
    values = np.stack([table.reindex(steps).fillna(0.0).to_numpy() for table in sums.values()])  # (S, T, 3 * pairs)
    rng = generator("component_correlations", arm)
    seed_shares = resampling_shares(resamples, len(sums), rng)
    step_shares = block_shares(resamples, len(steps), block_length(len(steps)), rng)
    drawn = np.zeros((resamples, values.shape[2]))
    for of_seed, shares in zip(values, seed_shares.T, strict=True):
        drawn += shares[:, None] * (step_shares @ of_seed)
    estimates, resampled = (correlations(table) for table in (values.sum(axis=(0, 1))[None], drawn))
    low, high = percentile_interval(resampled, confidence)
    found = {"estimate": estimates[0], "low": low, "high": high, "seeds": len(sums), "steps": len(steps)}
    return pd.DataFrame(pairs, columns=["component_a", "component_b"]).assign(arm=arm, **found)


def correlations(sums: np.ndarray) -> np.ndarray:
    """Correlations from (..., 3 * pairs) sums of `pair_sums`; NaN where one of the two scores does not vary."""
    products, first, second = (sums[..., column::3] for column in range(3))  # `ab`, `aa` and `bb` of `pair_sums`
    sizes = np.sqrt(np.maximum(first, 0) * np.maximum(second, 0))
    ratio = np.divide(products, sizes, out=np.full(products.shape, np.nan), where=sizes > 0)
    return np.clip(ratio, -1.0, 1.0)
