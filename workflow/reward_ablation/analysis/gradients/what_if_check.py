"""Whether training changed scores as the map over weights predicts, beside two rules that need no gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from reward_ablation.analysis.gradients.seed_intervals import Estimates, means_over_steps_and_seeds, over_seeds
from reward_ablation.analysis.gradients.what_if import MeasuredStep
from reward_ablation.analysis.gradients.what_if_map import by_seed_and_step
from reward_ablation.analysis.statistics.known import mean_of_known
from reward_ablation.gram.similarity import jackknife_margin

#: Share of a run's steps at its start and its end whose mean scores are compared.
ENDS = 0.1

#: Rules that predict a change: the map over weights; the covariance of scores; whether the arm rewards the component.
RULES = ["predicted", "covariance", "rewarded"]

#: Groups of changes, by whether the arm rewards the component.
CELLS = ["unrewarded", "rewarded", "all"]

#: Fewest changes whose ranks are compared.
LEAST_CELLS = 3

#: Fewest arms from which an interval is estimated.
LEAST_ARMS = 3

Values = Mapping[tuple[int, int], np.ndarray]


def score_covariances(measured: MeasuredStep, weights: np.ndarray) -> np.ndarray:
    """Covariance of each component's score with the weighted total, within groups, per deviation of the total.

    To first order, this is how a component's expected score changes where training moves the probabilities of single
    answers (Lu and Jiang, "Uncovering Cross-Objective Interference in Multi-Objective Alignment", 2026, arXiv
    2602.06869: the covariance law). No gradient enters.

    Parameters
    ----------
    weights : (P, K) array
        P weight vectors over the components of the run.

    Returns
    -------
    (P, K) array, in units of the scores; NaN where the total never varies within a group.
    """
    sums, variances, groups = np.zeros(weights.shape), np.zeros(len(weights)), 0
    for scores, size in measured.scores:
        size = size if size > 1 else len(scores)
        grouped = scores.reshape(len(scores) // size, size, scores.shape[1])
        centred = np.nan_to_num(grouped - mean_of_known(grouped, 1))
        total = centred @ weights.T  # (groups, size, P)
        sums += np.einsum("gsp,gsk->pk", total, centred) / max(size - 1, 1)
        variances += np.square(total).sum(axis=(0, 1)) / max(size - 1, 1)
        groups += len(grouped)
    return sums / np.sqrt(groups * np.where(variances > 0, variances, np.nan))[:, None]


def observed_change(scores: np.ndarray, confidence: float) -> Estimates:
    """Mean score of the last tenth of the steps less that of the first, mean over seeds, with an interval over seeds.

    `scores` are (S, T) means by seed and step; NaN where no completion had a score. With one seed there is no interval.
    """
    width = max(1, round(ENDS * scores.shape[1]))
    last, first = (mean_of_known(end, 1)[:, 0] for end in (scores[:, -width:], scores[:, :width]))
    return over_seeds((last - first)[None], np.full((1, len(scores), 1), np.nan), confidence)


def check_table(
    predictions: Mapping[str, Values],
    covariances: Mapping[str, Values],
    weights: Mapping[str, Mapping[str, float]],
    rewards_by_step: pd.DataFrame,
    components: list[str],
    confidence: float,
) -> pd.DataFrame:
    """Predicted effect of each arm's weights on each component, beside the observed change in training.

    `predictions` and `covariances` have for each arm, by (seed, step), (K,) values under its weights at early steps of
    the other arms' runs; `weights` has each arm's weights.

    Rows (arm, component) of the components that score the arm, means over seeds with intervals over seeds: `predicted`
    is in score per unit of the step's length, `covariance` and `observed` in score. `rewarded` is the weight's sign.
    Both predictions are NaN for an arm that is trained on a component which no other arm scores.
    """
    rows = []
    for arm in predictions:
        rules = {
            name: by_seed_and_step(dict(values[arm]))[0]
            for name, values in (("predicted", predictions), ("covariance", covariances))
        }
        for number, component in enumerate(components):
            of_arm = rewards_by_step[(rewards_by_step["arm"] == arm) & (rewards_by_step["quantity"] == component)]
            if of_arm.empty:
                continue
            scores = of_arm.pivot(index="seed", columns="step", values="mean").sort_index(axis=1)
            estimates = {
                name: means_over_steps_and_seeds(values[[number]], confidence) for name, values in rules.items()
            }
            estimates["observed"] = observed_change(scores.to_numpy(dtype=float), confidence)
            sign = float(np.sign(weights[arm][component]))
            rows.append(
                {"arm": arm, "component": component, "rewarded": sign, **ends_of(estimates), "seeds": len(scores)}
            )
    return pd.DataFrame(rows)


def ends_of(found: Mapping[str, Estimates]) -> dict[str, float]:
    """Columns NAME, NAME_low and NAME_high of estimates of one quantity each."""
    suffixes = {"estimate": "", "low": "_low", "high": "_high"}
    return {
        f"{name}{suffix}": float(getattr(values, end)[0])
        for name, values in found.items()
        for end, suffix in suffixes.items()
    }


def agreement_table(check: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How well the map and the two trivial rules rank the observed changes, and how far each is ahead of the others.

    The main result is on components that the arm does not reward: no prediction is needed to expect that a rewarded
    component rises. Rows (cells, rule): Spearman's correlation over the changes, and `ahead`, its difference to the
    best of the other rules that have a correlation. A rule that predicts the same for all changes has none. Changes
    without a prediction are left out. Intervals are by a jackknife that leaves out one arm at a time (Student's t),
    since the changes of an arm are correlated.
    """
    rows = []
    for cells in CELLS:
        table = chosen(check, cells)
        left_out = [correlations(table[table["arm"] != arm]) for arm in table["arm"].unique()]
        estimates = correlations(table)
        for number, rule in enumerate(RULES):
            others = [other for other in range(len(RULES)) if other != number and not np.isnan(estimates[other])]
            rival = max(others, key=lambda other: estimates[other], default=number)
            against = np.eye(len(RULES))[number] - np.eye(len(RULES))[rival] if others else np.full(len(RULES), np.nan)
            estimates_of_rule = []
            for coefficients in (np.eye(len(RULES))[number], against):
                values = np.array([combined(coefficients, each) for each in left_out])
                value, margin = combined(coefficients, estimates), margin_over_arms(values, confidence)
                estimates_of_rule += [value, value - margin, value + margin]
            estimates_of_rule[:3] = np.clip(estimates_of_rule[:3], -1, 1)
            rows.append((cells, rule, *estimates_of_rule, len(table), table["arm"].nunique()))
    columns = ["estimate", "low", "high", "ahead", "ahead_low", "ahead_high", "changes", "arms"]
    return pd.DataFrame(rows, columns=["cells", "rule", *columns])


def correlations(check: pd.DataFrame) -> np.ndarray:
    """Rank correlation of each of `RULES` with the observed changes."""
    return np.array([rank_correlation(check, rule) for rule in RULES])


def combined(coefficients: np.ndarray, values: np.ndarray) -> float:
    """Linear combination of values; those with coefficient 0 may be NaN."""
    used = coefficients != 0
    return float(coefficients[used] @ values[used])


def chosen(check: pd.DataFrame, cells: str) -> pd.DataFrame:
    """The changes of one of `CELLS` that are both predicted and observed."""
    known = check.dropna(subset=["predicted", "observed"])
    if cells == "all":
        return known
    return known[(known["rewarded"] == 0) == (cells == "unrewarded")]


def rank_correlation(check: pd.DataFrame, rule: str) -> float:
    """Spearman's correlation of a rule with the observed changes; NaN where one of them is constant."""
    known = check.dropna(subset=[rule])
    if len(known) < LEAST_CELLS or known[rule].nunique() < 2 or known["observed"].nunique() < 2:
        return math.nan
    # Ranks to nine digits: equal values may differ by rounding.
    ranks = [rankdata(np.round(known[column].to_numpy(dtype=float), 9)) for column in (rule, "observed")]
    return float(np.corrcoef(ranks)[0, 1])


def margin_over_arms(left_out: np.ndarray, confidence: float) -> float:
    """`jackknife_margin` of (G,) estimates without one of G arms each; NaN with fewer than `LEAST_ARMS` arms."""
    if len(left_out) < LEAST_ARMS:
        return math.nan
    return float(jackknife_margin(left_out[:, None, None], confidence).item())
