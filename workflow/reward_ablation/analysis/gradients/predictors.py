"""Whether quantities that are measured at a step predict how a component's score changes afterwards."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from reward_ablation.analysis.statistics.intervals import (
    block_length,
    block_shares,
    generator,
    percentile_interval,
    resampling_shares,
)

#: Quantities of `signals_by_step` that may predict a change, in the order of figures; `no_signal` is of all components.
PREDICTORS = ["covariance", "covariance_with_advantage", "variance", "no_signal", "gradient_cosine", "gradient_effect"]

#: Fewest steps of a window, and the window's share of a run's steps.
LEAST_WINDOW, WINDOW_SHARE = 4, 0.1

#: Fewest windows of a run that gives an estimate.
LEAST_WINDOWS = 4


def window_of(steps: int) -> int:
    """Steps after a step over which the change of a score is taken: a tenth of all, at least `LEAST_WINDOW`."""
    return max(LEAST_WINDOW, round(WINDOW_SHARE * steps))


def slopes_after(scores: np.ndarray, window: int) -> np.ndarray:
    """Least-squares slope of the scores of the `window` steps after each step, in score per step.

    The step itself is left out: its completions also decide what is measured at the step, so that their noise alone
    would correlate the two. `scores` are (..., T) means by step; so are the slopes, NaN for the last `window` steps and
    where a score is unknown.
    """
    slopes = np.full(scores.shape, np.nan)
    if scores.shape[-1] > window:
        times = np.arange(window) - (window - 1) / 2
        windows = np.lib.stride_tricks.sliding_window_view(scores, window, axis=-1)
        slopes[..., :-window] = windows[..., 1:, :] @ (times / np.square(times).sum())
    return slopes


def rank_correlations(ranks: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Correlations of pairs of ranks in resamples: (S, B) array, NaN where a resample has no variation.

    `ranks` is a (S, 2, T) array, NaN where the pair is not known; `shares` is a (B, T) array.
    """
    known = ~np.isnan(ranks[:, 0])
    if (known != known[0]).any():
        return np.concatenate([rank_correlations(of_seed[None], shares) for of_seed in ranks])
    if not known[0].all():
        ranks, shares = ranks[..., known[0]], shares[:, known[0]]
    if not ranks.size:
        return np.full((len(ranks), len(shares)), np.nan)
    a, b = np.moveaxis(ranks - ranks.mean(axis=-1, keepdims=True), 1, 0)
    moments = shares @ np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=-1)  # (S, B, 6)
    weight = np.where(moments[..., :1] > 0, moments[..., :1], np.nan)
    _, mean_a, mean_b, square_a, square_b, product = np.moveaxis(moments / weight, -1, 0)
    scale = (square_a - mean_a**2) * (square_b - mean_b**2)
    small = 1e-9 * (np.square(a).mean(axis=-1) * np.square(b).mean(axis=-1))[:, None]
    return np.divide(
        product - mean_a * mean_b, np.sqrt(np.maximum(scale, 0)), out=np.full(scale.shape, np.nan), where=scale > small
    )


def predicted_changes(
    predictor: np.ndarray, scores: np.ndarray, window: int, labels: tuple[str, ...], resamples: int, confidence: float
) -> tuple[float, float, float]:
    """Rank correlation of a predictor with the slope of the score afterwards, mean over seeds, with its interval.

    Ranks are taken within each run, once; resamples draw seeds, and blocks of `window` steps or more for all seeds,
    since neighbouring steps share most of their windows. `predictor` and `scores` are (S, T) arrays by seed and step.
    The estimate is in [-1, 1]; all three results are NaN where nothing varies or fewer than `LEAST_WINDOWS` windows are
    known.
    """
    slopes = slopes_after(scores, window)
    pairs = np.stack([predictor, slopes], axis=1)  # (S, 2, T)
    pairs[np.broadcast_to(np.isnan(pairs).any(axis=1, keepdims=True), pairs.shape)] = np.nan
    covered = ~np.isnan(pairs[:, 0]).all(axis=0)
    if not covered.any() or np.ptp(np.flatnonzero(covered)) + 1 < (LEAST_WINDOWS - 1) * window:
        return np.nan, np.nan, np.nan
    pairs = pairs[..., covered]
    ranks = rankdata(pairs, axis=-1, nan_policy="omit")
    seeds, steps = len(pairs), pairs.shape[-1]
    evenly = np.full((1, steps), 1 / steps)
    whole = rank_correlations(ranks, evenly)[:, 0]
    if np.isnan(whole).all():
        return np.nan, np.nan, np.nan
    rng = generator("predictors", *labels)
    seed_shares = resampling_shares(resamples, seeds, rng)
    # A quantity that is measured at every n-th step only has n times fewer values in a window.
    spacing = np.median(np.diff(np.flatnonzero(covered))) if steps > 1 else 1
    step_shares = block_shares(resamples, steps, block_length(steps, int(np.ceil(window / spacing))), rng)
    drawn = rank_correlations(ranks, step_shares).T
    weights = np.where(np.isnan(drawn), 0.0, seed_shares)
    sums = weights.sum(axis=1)
    means = np.divide(
        (weights * np.nan_to_num(drawn)).sum(axis=1), sums, out=np.full(resamples, np.nan), where=sums > 0
    )
    low, high = percentile_interval(means[:, None], confidence)
    return float(np.nanmean(whole)), float(low[0]), float(high[0])


def by_seed_and_step(values: np.ndarray, seed: np.ndarray, step: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Array of values by the numbers of their seeds and steps, NaN where there is no value."""
    table = np.full(shape, np.nan)
    table[seed, step] = values
    return table


def predictors(
    signals_by_step: pd.DataFrame, arms: list[str], components: list[str], resamples: int, confidence: float
) -> pd.DataFrame:
    """For each arm and component: does a quantity at a step correlate with the slope of the score afterwards?

    Limits: predictors and slopes both drift as training goes on, and two drifts correlate whatever their cause. In 300
    simulated arms of 2 seeds without any relation, 95 % intervals left out 0 in 1 to 2 % (independent noise, and
    autocorrelations of .8 and .9; 40 and 200 steps), but in 54 % (40 steps) and all (200) where predictor and score
    both drifted. A run holds few windows that do not overlap: ten, at a tenth of its steps each.

    `signals_by_step` is that table together with the rows of `alignment_by_step`. Rows (arm, predictor, component) are
    in the order of arms, `PREDICTORS` and components; none where nothing is known.
    """
    rows = []
    wanted = signals_by_step["quantity"].isin([*PREDICTORS, "score"]) & signals_by_step["arm"].isin(arms)
    for arm, of_arm in signals_by_step[wanted].groupby("arm", sort=False):
        steps = np.sort(of_arm["step"].unique())
        seeds = sorted(of_arm["seed"].unique())
        window, shape = window_of(len(steps)), (len(seeds), len(steps))
        seed, step = np.searchsorted(seeds, of_arm["seed"]), np.searchsorted(steps, of_arm["step"])
        labelled = of_arm.assign(component=of_arm["component"].fillna("")).groupby(
            ["quantity", "component"], sort=False
        )
        values = {
            labels: by_seed_and_step(of_arm["value"].to_numpy(dtype=float)[rows], seed[rows], step[rows], shape)
            for labels, rows in labelled.indices.items()
        }
        for predictor in PREDICTORS:
            for component in components:
                measured = values.get((predictor, "" if predictor == "no_signal" else component))
                if measured is None or ("score", component) not in values:
                    continue
                labels = (str(arm), predictor, component)
                scores = values["score", component]
                interval = predicted_changes(measured, scores, window, labels, resamples, confidence)
                rows.append((arm, predictor, component, *interval, len(seeds), len(steps), window))
    columns = ["arm", "predictor", "component", "estimate", "low", "high", "seeds", "steps", "window"]
    table = pd.DataFrame(rows, columns=columns).dropna(subset="estimate", ignore_index=True)
    return table.sort_values("arm", key=lambda arm: arm.map(arms.index), kind="stable", ignore_index=True)
