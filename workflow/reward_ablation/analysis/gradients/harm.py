"""Which steps of a run hurt a component: a test by step, from pairs of different prompts, with error control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr
from scipy.stats import false_discovery_control
from statsmodels.stats.proportion import proportion_confint

from reward_ablation.analysis.gradients.error_rates import FALSE_DISCOVERIES
from reward_ablation.analysis.gradients.measured_steps import StepProducts
from reward_ablation.analysis.gradients.seed_intervals import STEPS, over_seeds
from reward_ablation.analysis.gradients.split_halves import cross_prompt_products

#: Fewest prompts of a step from which its noise is estimated.
LEAST_PROMPTS = 3


class Effect(NamedTuple):
    """Effect of a step on each of K components, its standard error and one-sided p-value; (K,) arrays."""

    effect: np.ndarray
    error: np.ndarray
    p: np.ndarray


def effect_of_step(products: StepProducts) -> Effect:
    """Whether the step that was trained hurts each component beyond noise.

    The effect is <grad J_k, step> as a mean over pairs of completions of different prompts: the gradient of the
    component's expected score from one prompt, the step from another. So no completion's noise is multiplied by itself,
    and the mean is unbiased for the product of the two expectations, whatever the advantages have in common.
    """
    taken = -products.measured.own_shares.sum(axis=1)
    kinds = len(products.measured.components)
    removed, pairs_of_prompt = np.zeros((len(products.prompts), kinds)), np.zeros(len(products.prompts))
    total, all_pairs = np.zeros(kinds), 0.0
    for block, gram, scores in zip(products.blocks, products.summed, products.scores, strict=True):
        step = taken[block.completions][None]
        to_others = cross_prompt_products(gram, scores, step, block.prompts, products.prompts)[..., 0]  # (G, K)
        from_others = cross_prompt_products(gram, step, scores, block.prompts, products.prompts)[:, 0]
        sizes = (block.prompts == products.prompts[:, None]).sum(axis=1)
        of_prompt = sizes * (len(block.prompts) - sizes)
        total, removed = total + to_others.sum(axis=0), removed + to_others + from_others
        all_pairs, pairs_of_prompt = all_pairs + of_prompt.sum(), pairs_of_prompt + 2.0 * of_prompt
    return jackknife_test(total, removed, all_pairs, pairs_of_prompt)


def jackknife_test(total: np.ndarray, removed: np.ndarray, pairs: float, pairs_of_prompt: np.ndarray) -> Effect:
    """Mean effects, with error and p-value (of an effect below 0) by the delete-one jackknife over prompts.

    The statistic is a U-statistic of degree two. The jackknife's variance of such a statistic is not too small in
    expectation (Efron and Stein, "The jackknife estimate of variance", Annals of Statistics 1981). Student's t has
    G - 1 degrees of freedom. p is 1 where nothing is known: no advantage, or too few prompts.

    Parameters
    ----------
    total : (K,) array
        Sum over pairs of completions of different prompts.
    removed : (G, K) array
        Part of the sum that each prompt contributes to.
    pairs, pairs_of_prompt : float and (G,) array
        Number of pairs in the sum, and in each prompt's part.
    """
    prompts, kinds = removed.shape
    unknown = Effect(np.full(kinds, np.nan), np.full(kinds, np.nan), np.ones(kinds))
    if prompts < LEAST_PROMPTS or (pairs - pairs_of_prompt <= 0).any():
        return unknown
    without = (total - removed) / (pairs - pairs_of_prompt)[:, None]
    error = np.sqrt((prompts - 1) / prompts * np.square(without - without.mean(axis=0)).sum(axis=0))
    effect = total / pairs
    clear = error > 1e-12 * np.abs(effect)
    ratio = np.divide(effect, error, out=np.zeros(kinds), where=clear)
    return Effect(effect, error, np.where(clear, stdtr(prompts - 1, ratio), 1.0))


def harm_by_step(effects: Mapping[int, Effect], components: list[str]) -> pd.DataFrame:
    """Rows (step, component) of one run, with p-values as they are and adjusted over the run's steps.

    Adjusted p-values are Benjamini and Hochberg's (JRSS B 1995), by component: a step is called harmful where its
    adjusted p-value is at most `FALSE_DISCOVERIES`. Rollouts of different steps are drawn independently.
    """
    steps, kinds = list(effects), len(components)
    columns = {name: np.array([getattr(effects[step], name) for step in steps]) for name in Effect._fields}
    adjusted = false_discovery_control(columns["p"], axis=0)
    return pd.DataFrame(
        {
            "step": np.repeat(steps, kinds),
            "component": np.tile(components, len(steps)),
            **{name: values.ravel() for name, values in columns.items()},
            "p_adjusted": adjusted.ravel(),
            "harmful": (adjusted <= FALSE_DISCOVERIES).ravel(),
        }
    )


def harm_by_arm(harm: pd.DataFrame, arm: str, components: list[str], confidence: float) -> pd.DataFrame:
    """Share of an arm's tested steps that are called harmful to each component, mean over seeds.

    Intervals are by Student's t over seeds. Where all seeds have the same share, such as 0, they do not show how
    much seeds differ: the interval is then Clopper and Pearson's over all steps of all seeds. `harm` has the arm's
    rows of `harm_by_step`.
    """
    rows = []
    for component in components:
        of_component = harm[(harm["component"] == component) & harm["effect"].notna()]
        if of_component.empty:
            continue
        values = of_component.pivot(index="seed", columns="step", values="harmful").to_numpy(dtype=float)
        by_seed = np.nanmean(values, axis=1)
        share = over_seeds(by_seed[None], values[None], confidence).clipped(0, 1)
        low, high, interval = share.low[0], share.high[0], share.interval[0]
        if np.ptp(by_seed) == 0 and low == high:
            low, high = proportion_confint(int(np.nansum(values)), len(of_component), 1 - confidence, method="beta")
            interval = STEPS
        rows.append((arm, component, share.estimate[0], low, high, len(by_seed), values.shape[1], interval))
    return pd.DataFrame(rows, columns=["arm", "component", "estimate", "low", "high", "seeds", "steps", "interval"])
