"""Variance between seeds of a contrast of arms, averaged with the variance of the other arms.

`analysis.evaluation.answers` asks it for each arm, difference and effect of the tables; `power` and `budget` plan with
the same rules of borrowing.

Two or three seeds say little about how much seeds differ: Student's t with one degree of freedom has a quantile of
12.7. The arms of a study are trained alike, so their seeds differ by similar amounts, and a contrast can borrow from
other arms. Empirical Bayes methods do so in genomics (Smyth, "Linear models and empirical Bayes methods", Statistical
Applications in Genetics and Molecular Biology 2004): own and borrowed variance are averaged by their degrees of
freedom ("moderated"). Here at most two degrees of freedom are borrowed, and no more than the contrast has itself, so
that an arm whose seeds do differ more is not made to look like the others. `benchmarks/coverage_of_studies.py` measured
how often intervals hold the truth with this limit; docs/statistics.md has the result.

Variances are compared on a scale on which they do not depend on the mean: the arcsine of a share's square root, the
logarithm of a length. A seed may have the same effect on every arm, because it decides the order of the data. So a
contrast borrows the variance of those contrasts of arms that are orthogonal to it, from an analysis of arms by seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import f as f_distribution

from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.combination.normalisation import nan_mean

#: Most degrees of freedom that are borrowed, where the contrast has as many itself.
MOST_BORROWED = 2.0

#: An arm whose seeds differ more than those of the others, with a p-value below this, neither lends nor borrows. It is
#: not corrected: a false doubt costs only degrees of freedom.
DOUBTFUL = 0.05

#: Usual standard deviation between seeds, as a share of a metric's range, or of its mean where it has no range. It is
#: assumed where seeds are equal, and by `budget` where nothing says how much seeds differ.
USUAL_SEED_SD = 0.02

#: A sum of squares over seeds is at most this where seeds are equal: rounding.
EQUAL_SEEDS = 1e-12

#: Highest probability that any arm is flagged in a metric in which the seeds of all arms differ alike.
FALSE_FLAGS = 0.05


def most_borrowed(seeds: int) -> float:
    """Most degrees of freedom that a contrast of so many seeds borrows."""
    return min(seeds - 1.0, MOST_BORROWED)


class SeedVariance(NamedTuple):
    """Variance between seeds of a contrast: (metrics,) arrays."""

    variance: np.ndarray  # of the contrast's value in one seed, in squared units of the metric
    degrees: np.ndarray  # of freedom of the variance, own and borrowed


@dataclass(frozen=True)
class SeedMeans:
    """Means over questions of each arm and seed, of one data set and mode."""

    arms: list[str]  # in the study's order
    seeds: list[int]  # that any arm has
    values: np.ndarray  # (metrics, arms, seeds); NaN where an arm has no such seed
    limits: list[Limits]  # of each metric
    questions: int  # number of questions that each mean is over
    lends: bool = True  # whether contrasts borrow from the other arms; not under `statistics.seed_variance: per_arm`

    @classmethod
    def of_questions(
        cls, values: Mapping[str, Mapping[Any, np.ndarray]], limits: Limits, lends: bool = True
    ) -> SeedMeans:
        """Seed means of one metric, from the (questions,) values of each arm and seed. The base model has seed None."""
        seeds = sorted({seed for of_seeds in values.values() for seed in of_seeds if seed is not None})
        means = [[own[seed].mean() if seed in own else np.nan for seed in seeds] for own in values.values()]
        questions = len(next(iter(next(iter(values.values())).values())))
        return cls([*values], seeds, np.array([means]), [limits], questions, lends)

    def without(self, arms: Collection[str]) -> SeedMeans:
        """The seed means of the other arms."""
        kept = [number for number, arm in enumerate(self.arms) if arm not in arms]
        return replace(self, arms=[self.arms[number] for number in kept], values=self.values[:, kept])

    @cached_property
    def known(self) -> np.ndarray:
        """(arms, seeds) array of bool: whether an arm has a seed."""
        return ~np.isnan(self.values).any(axis=0)

    @cached_property
    def kind(self) -> np.ndarray:
        """(arms,) array of int: arms with the same number have the same values, as arms that share their runs do."""
        arms = np.nan_to_num(self.values, nan=-np.inf).transpose(1, 0, 2).reshape(len(self.arms), -1)
        return np.asarray(np.unique(arms, axis=0, return_inverse=True)[1])

    @cached_property
    def first_of_kind(self) -> np.ndarray:
        """(arms,) array of bool: the first arm of each kind."""
        return np.isin(np.arange(len(self.arms)), np.unique(self.kind, return_index=True)[1])

    @cached_property
    def counted(self) -> np.ndarray:
        """(arms,) array of bool: the first arm of each kind, and all whose seeds are equal, maybe by chance."""
        return np.asarray(self.first_of_kind | ~(self.squares > EQUAL_SEEDS).any(axis=0))

    @cached_property
    def centred(self) -> np.ndarray:
        """(metrics, arms, seeds) array: deviations from arms' means on the scale of comparison; NaN as in `values`."""
        scaled = np.array([_scaled(limits, values) for limits, values in zip(self.limits, self.values, strict=True)])
        return np.asarray(scaled - nan_mean(scaled, -1))

    @cached_property
    def slope(self) -> np.ndarray:
        """(metrics, arms) array: units of the metric per unit of the scale of comparison, at each arm's mean."""
        means = nan_mean(self.values, -1)[..., 0]
        return np.array([slope_at(*each, self.questions) for each in zip(self.limits, means, strict=True)])

    @cached_property
    def flagged(self) -> np.ndarray:
        """(metrics, arms) array of bool: arms whose seeds differ more than chance allows, by Bonferroni over arms."""
        tests = (self.tested.any(axis=0) & self.counted).sum()
        return np.asarray(self.tested & (self.p_unlike * tests < FALSE_FLAGS))

    @cached_property
    def degrees(self) -> np.ndarray:
        """(arms,) array: degrees of freedom of each arm's variance between seeds."""
        return np.maximum(self.known.sum(axis=1) - 1, 0)

    @cached_property
    def degrees_of_others(self) -> np.ndarray:
        """(arms,) array: degrees of freedom of the variance of all arms that do not share an arm's runs."""
        return np.asarray(np.where(self.counted, self.degrees, 0).sum() - self.degrees)

    @cached_property
    def squares(self) -> np.ndarray:
        """(metrics, arms) array: sums of squares of `centred` over seeds."""
        return np.asarray(np.nansum(self.centred**2, axis=2))

    @cached_property
    def tested(self) -> np.ndarray:
        """(metrics, arms) array of bool: arms whose seeds differ, in a study with other arms to compare them with."""
        comparable = (self.degrees > 0) & (self.degrees_of_others > 0)
        return np.asarray(comparable & (self.squares > EQUAL_SEEDS))

    @cached_property
    def p_unlike(self) -> np.ndarray:
        """(metrics, arms) one-sided p-values, by F, of seeds differing no more than other arms'; 1 without test."""
        degrees = np.maximum(self.degrees, 1)
        degrees_of_others = np.maximum(self.degrees_of_others, 1)
        others = np.where(self.counted, self.squares, 0.0).sum(axis=1, keepdims=True) - self.squares
        ratio = self.squares * degrees_of_others / (np.maximum(others, EQUAL_SEEDS) * degrees)
        return np.where(self.tested, f_distribution.sf(ratio, degrees, degrees_of_others), 1.0)

    def of_contrast(
        self, coefficients: Mapping[str, float], seeds: Sequence[int], pooled: bool = False
    ) -> SeedVariance:
        """Moderated variance of a contrast of arms over two or more seeds, which all its arms have.

        Arms lend that have these seeds and runs of their own and are not doubtful; a contrast of a doubtful arm borrows
        nothing. `pooled` borrows from all arms without a limit: a check beside primary differences, which no test uses.
        """
        contrast = np.array([coefficients.get(arm, 0.0) for arm in self.arms])
        concerned = contrast != 0
        places = [self.seeds.index(seed) for seed in seeds]
        chosen = self.values[:, concerned][:, :, places]
        own = np.einsum("a,mas->ms", contrast[concerned], chosen).var(axis=1, ddof=1)
        doubtful = (self.p_unlike < DOUBTFUL) & (not pooled)
        distinct = self.first_of_kind & ~np.isin(self.kind, self.kind[concerned])
        lending = (self.known[:, places].all(axis=1) & distinct & ~doubtful) | concerned
        deviations = np.where(lending[..., None], self.centred[:, :, places], 0.0)
        deviations = deviations - deviations.mean(axis=2, keepdims=True)
        prior, prior_degrees = _prior(deviations, contrast * np.where(concerned, self.slope, 0.0), lending)
        borrows_nothing = (doubtful & concerned).any(axis=1) | (not self.lends)
        limit = np.inf if pooled else most_borrowed(len(seeds))
        borrowed = np.where(borrows_nothing, 0.0, np.minimum(prior_degrees, limit))
        degrees = len(seeds) - 1 + borrowed
        variance = ((len(seeds) - 1) * own + borrowed * prior) / degrees
        return SeedVariance(np.maximum(variance, self._floor(contrast, places, own)), degrees)

    def _floor(self, contrast: np.ndarray, places: Sequence[int], own: np.ndarray) -> np.ndarray:
        """(metrics,) least variance of a contrast whose value is equal in all seeds; 0 for other contrasts."""
        # Equal seeds do not show that other seeds are equal, too. Each arm then has the mean variance of all arms that
        # have the seeds, at least the usual one; doubtful arms count, as they must where seeds are equal.
        chosen = self.values[:, :, places]
        widths = np.array([limits.high - limits.low if limits.finite else np.nan for limits in self.limits])
        scale = np.where(np.isnan(widths), np.abs(chosen[:, contrast != 0]).mean(axis=(1, 2)), widths)
        whole = self.known[:, places].all(axis=1) & self.counted
        of_arms = chosen[:, whole].var(axis=2, ddof=1).mean(axis=1) if self.lends else 0.0
        least = np.square(contrast).sum() * np.maximum(of_arms, (USUAL_SEED_SD * scale) ** 2)
        return np.where(own <= (1e-9 * scale) ** 2, least, 0.0)  # equal up to rounding

    def flagged_in(self, coefficients: Mapping[str, float]) -> np.ndarray:
        """Names of a contrast's flagged arms, by metric; None where there is none."""
        concerned = [coefficients.get(arm, 0.0) != 0 for arm in self.arms]
        of_metrics = self.flagged & np.array(concerned)
        named = [", ".join(self.arms[place] for place in np.flatnonzero(arms)) or None for arms in of_metrics]
        return np.array(named, dtype=object)


def _scaled(limits: Limits, values: np.ndarray) -> np.ndarray:
    """Values on the scale of comparison. A count below 1e-9 counts as that, since 0 has no logarithm."""
    if limits.finite:
        shares = (values - limits.low) / (limits.high - limits.low)
        return np.asarray(np.arcsin(np.sqrt(np.clip(shares, 0.0, 1.0))))
    return np.log(np.maximum(values, 1e-9)) if limits.low == 0 else values


def slope_at(limits: Limits, means: np.ndarray, questions: int) -> np.ndarray:
    """Units of the metric per unit of the scale of comparison; shares of 0 and 1 are taken half an answer inside."""
    if limits.finite:
        width = limits.high - limits.low
        inside = (questions * np.clip((means - limits.low) / width, 0.0, 1.0) + 0.5) / (questions + 1)
        return np.asarray(width * 2 * np.sqrt(inside * (1 - inside)))
    return np.maximum(means, 1e-9) if limits.low == 0 else np.where(np.isnan(means), np.nan, 1.0)


def _prior(centred: np.ndarray, weights: np.ndarray, lending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(metrics,) variance of a contrast, estimated from the other contrasts of the arms, and its degrees of freedom.

    A seed adds u to all arms and e to each, with variances U and E, so that a contrast with weights w of squared
    length 1 and sum t has variance E + t² U. E is the mean square of the contrasts that are orthogonal to w and to the
    mean of the arms, and U follows from the part of that mean which is orthogonal to w. Degrees of freedom are
    Satterthwaite's (Biometrics Bulletin 1946) times 1 - r², where r is the correlation that u gives to the contrast and
    this mean: that part is not new. They are 0 where there is nothing to borrow from.

    `centred`, (metrics, arms, seeds), are deviations from each arm's mean on the scale of comparison, with 0 for arms
    that do not lend. `weights`, (metrics, arms), are the contrast's coefficients on that scale, in units of the
    metric. `lending`, (metrics, arms), marks the arms that lend, and the contrast's own.
    """
    seeds = centred.shape[2]
    length = np.sqrt((weights**2).sum(axis=1))
    unit = weights / length[:, None]
    total = unit.sum(axis=1)
    common = lending - total[:, None] * unit  # the mean of the arms, less its part along the contrast
    squared = (common**2).sum(axis=1)
    known = squared > 1e-9  # else nothing but rounding is left of the mean, and U is taken for 0
    size = np.where(known, squared, 1.0)
    along = np.where(known[:, None], common / np.sqrt(size)[:, None], 0.0)
    along_contrast = np.einsum("ma,mas->ms", unit, centred)
    along_mean = np.einsum("ma,mas->ms", along, centred)
    rest = (centred**2).sum(axis=(1, 2)) - (along_contrast**2).sum(axis=1) - (along_mean**2).sum(axis=1)
    degrees = (lending.sum(axis=1) - 1 - known) * (seeds - 1.0)
    usable = degrees > 0
    of_each = np.maximum(rest, 0.0) / np.where(usable, degrees, 1.0)
    of_mean = np.maximum((along_mean**2).sum(axis=1) / (seeds - 1), of_each)  # at least E, so that U is not negative
    of_all = np.where(known, (of_mean - of_each) / size, 0.0)
    variance = of_each + total**2 * of_all
    tiny = np.finfo(float).tiny
    from_mean = np.where(known, total**2 / size, 0.0) * of_mean  # part of the variance that the mean of the arms gives
    from_each = np.maximum(variance - from_mean, 0.0)
    spread = from_each**2 / np.where(usable, degrees, 1.0) + from_mean**2 / (seeds - 1)
    satterthwaite = np.where(spread > tiny, variance**2 / np.maximum(spread, tiny), degrees)
    both = variance * (of_each + size * of_all)
    r_squared = np.where(both > tiny, (total * np.sqrt(size) * of_all) ** 2 / np.maximum(both, tiny), 0.0)
    return variance * length**2, np.where(usable, satterthwaite * (1 - r_squared), 0.0)
