"""Power and interval lengths of the primary contrasts, by numbers of seeds, questions and samples.

Whole studies are simulated by their summary statistics: the means of all arms' seeds, and the mean squares of questions
and of the rest. From these, variances, margins and Holm's decisions are those of the tables
(`analysis.statistics`): variances between seeds borrow from the other arms, and margins of seeds and questions add up
by MOVER. The bootstrap's shape is taken to be normal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from reward_ablation.analysis.evaluation.answers import limits_of
from reward_ablation.analysis.statistics.estimates import Distribution, MeanSquares, moderated, spread_of
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.design.variances import Components, Pair

#: Simulated studies of a design: the standard error of a power is at most 1.1 points.
STUDIES = 2000

#: Power that a study is planned for.
TARGET = 0.8

#: Numbers of seeds among which the fewest are looked for.
SEEDS = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30]

#: Levels of the range in which 80 % of interval lengths lie.
RANGE = (0.1, 0.9)

#: Variances between seeds, on the comparable scale, of the arms in each study: from (studies, generator) to
#: (studies, arms) array.
Variances = Callable[[int, np.random.Generator], np.ndarray]


class Variance(Enum):
    """What the simulated studies assume of the variance between seeds."""

    ESTIMATED = "the estimate"
    LOW = "the lower end of its interval"
    HIGH = "the upper end of its interval"
    PROBABLE = "values that are as probable as the pilot says"


class Design(NamedTuple):
    """Size of a study: seeds of each arm, questions of the primary data set, samples of a question."""

    seeds: int
    questions: int
    samples: int


class Analysis(NamedTuple):
    """How a study is analysed."""

    pairs: list[Pair]
    confidence: float
    lends: bool


@dataclass
class Simulated:
    """Simulated studies of one design.

    Attributes
    ----------
    errors : (contrasts, studies) array
        Estimates less what is true.
    distributions : list of Distribution
        Of each contrast; the estimates are `errors`.
    alpha : float
        One minus the confidence.
    """

    errors: np.ndarray
    distributions: list[Distribution]
    alpha: float
    _critical: dict[int, np.ndarray] = field(default_factory=dict)

    def critical(self, tests: int) -> np.ndarray:
        """(contrasts, studies) array: estimates that are significant at a level of alpha over so many tests."""
        if tests not in self._critical:
            level = self.alpha / tests / 2
            margins = [of.margin(lambda degrees: -stdtrit(degrees, level)) for of in self.distributions]
            self._critical[tests] = np.array(margins)
        return self._critical[tests]

    def found(self, effects: Sequence[float] | np.ndarray) -> np.ndarray:
        """(contrasts, studies) array of bool: what Holm's tests find where the contrasts have these true values.

        Holm's procedure rejects the smallest p-values, the next at alpha over the number of those left. An estimate
        beyond its margin at a level has a p-value below this level.
        """
        estimates = np.abs(self.errors + np.asarray(effects)[:, None])
        contrasts, studies = estimates.shape
        rejected = np.zeros(studies, dtype=int)
        while True:
            found = np.empty(estimates.shape, dtype=bool)
            for count in np.unique(rejected):
                those = rejected == count
                found[:, those] = estimates[:, those] > self.critical(max(contrasts - count, 1))[:, those]
            if (found.sum(axis=0) == rejected).all():
                return found
            rejected = found.sum(axis=0)

    def lengths(self, contrast: int, truth: float) -> np.ndarray:
        """(studies,) array: lengths of a contrast's intervals, which end where the metric's range does."""
        of, margin, estimate = self.distributions[contrast], self.critical(1)[contrast], self.errors[contrast] + truth
        return np.asarray(np.clip(estimate + margin, of.low, of.high) - np.clip(estimate - margin, of.low, of.high))

    def detectable(self, contrast: int) -> float:
        """Smallest effect of a contrast that is found with a power of `TARGET`, at the level that Holm begins with."""
        return float(np.quantile((self.critical(len(self.errors)) - self.errors)[contrast], TARGET))


def simulate(
    components: Components, analysis: Analysis, design: Design, variances: Variances, studies: int
) -> Simulated:
    """Simulate studies of a design, the same for equal arguments.

    Seed means are normal. An arm's own part of a question is independent of the other arms' parts, so that two
    contrasts with an arm in common have correlated questions.
    """
    rng = generator("power", *map(str, design))
    arms = list(components.means)
    means = seed_means(components, design, variances(studies, rng), rng)
    values = SeedMeans(arms, list(range(design.seeds)), means, [components.limits] * studies, design.questions)
    of_questions = rng.normal(size=(len(arms), studies))
    limits = limits_of([components.limits], (-1.0, 1.0))
    truths = [components.means[arm] for arm in arms]
    errors, distributions = [], []
    for one, other in analysis.pairs:
        places = arms.index(one), arms.index(other)
        of_seeds = means[:, places[0]] - means[:, places[1]]
        question = components.question[one, other]
        apart = (of_questions[places[0]] - of_questions[places[1]]) / np.sqrt(2)
        true = truths[places[0]] - truths[places[1]]
        error = of_seeds.mean(axis=1) - true + apart * np.sqrt(question / design.questions)
        squares = mean_squares_of(components, (one, other), design, of_seeds, rng)
        spread = spread_of(squares, design.seeds, design.questions)
        if analysis.lends:
            spread = moderated(spread, design.seeds, values.of_contrast({one: 1.0, other: -1.0}, values.seeds))
        errors.append(error)
        distributions.append(
            Distribution(error, spread, np.empty((0, studies)), *limits, design.seeds, design.questions)
        )
    return Simulated(np.array(errors), distributions, 1 - analysis.confidence)


def seed_means(components: Components, design: Design, variances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Seed means of arms: (studies, arms, seeds) array; `variances`, on the comparable scale, is (studies, arms)."""
    arms = list(components.means)
    size = (len(variances), len(arms), design.seeds)
    slopes = np.array([components.slope(arm) for arm in arms])[:, None]
    noise = np.array([components.answer_variance(arm, design.questions, design.samples) for arm in arms])[:, None]
    common = np.sqrt(components.seed.common) * rng.normal(size=(len(variances), 1, design.seeds))
    own = np.sqrt(variances)[..., None] * rng.normal(size=size)
    means = np.array([components.means[arm] for arm in arms])[:, None]
    return np.asarray(means + slopes * (common + own) + np.sqrt(noise) * rng.normal(size=size))


def mean_squares_of(
    components: Components, pair: Pair, design: Design, of_seeds: np.ndarray, rng: np.random.Generator
) -> MeanSquares:
    """Mean squares of a contrast in simulated studies; `of_seeds` has its (studies, seeds) means."""
    seeds, questions, samples = design
    answers = sum(components.answer_variance(arm, questions, samples) for arm in pair) * questions
    rest_degrees, degrees = max((seeds - 1) * (questions - 1), 1), max(questions - 1, 1)
    rest = answers * rng.chisquare(rest_degrees, len(of_seeds)) / rest_degrees
    question = answers + seeds * components.question[pair]
    of_questions = question * rng.chisquare(degrees, len(of_seeds)) / degrees
    return MeanSquares(questions * of_seeds.var(axis=1, ddof=1), of_questions, rest)


class Plan:
    """What studies of several designs would find, each design simulated once for each assumption on the variances."""

    def __init__(self, components: Components, analysis: Analysis, studies: int = STUDIES) -> None:
        self.components = components
        self.analysis = analysis
        self.studies = studies
        self.simulated = cache(self._simulated)

    def _simulated(self, design: Design, variance: Variance) -> Simulated:
        drawn = partial(_drawn, self.components, variance)
        return simulate(self.components, self.analysis, design, drawn, self.studies)

    def power(self, design: Design, pair: Pair, effect: float, variance: Variance = Variance.ESTIMATED) -> float:
        """Chance that Holm's test finds the effect of a contrast's arm, where all other arms are alike."""
        found = self.simulated(design, variance).found(shifts(self.analysis.pairs, pair[0], effect))
        return float(found[self.analysis.pairs.index(pair)].mean())

    def row(self, design: Design, pair: Pair, effect: float) -> dict[str, Any]:
        """A row of the table of `table`."""
        truth = self.components.means[pair[0]] - self.components.means[pair[1]]
        place = self.analysis.pairs.index(pair)
        usual, probable = (
            self.simulated(design, of).lengths(place, truth) for of in (Variance.ESTIMATED, Variance.PROBABLE)
        )
        low, high = np.quantile(probable, RANGE)
        powers = [self.power(design, pair, effect, of) for of in (Variance.ESTIMATED, Variance.LOW, Variance.HIGH)]
        return {
            **{"arm": pair[0], "against": pair[1], "effect": effect, **design._asdict()},
            **{"length": usual.mean(), "length_low": low, "length_high": high},
            "detectable": self.simulated(design, Variance.ESTIMATED).detectable(place),
            **{"power": powers[0], "power_low": min(powers), "power_high": max(powers)},
        }

    def table(self, designs: Sequence[Design], effects: Sequence[float]) -> pd.DataFrame:
        """One row for each contrast, design and effect.

        Columns
        -------
        arm, against, effect, seeds, questions, samples
        length : mean length of the interval, with the estimated variance between seeds
        length_low, length_high : 80 % of lengths lie between, the variance being as probable as the pilot says
        detectable : smallest effect with a power of 80 %
        power : chance that Holm's test finds the effect
        power_low, power_high : lowest and highest power within the 80 % interval of the variance between seeds, by its
            ends and the estimate
        """
        pairs = self.analysis.pairs
        return pd.DataFrame(
            [self.row(design, pair, effect) for pair in pairs for design in designs for effect in effects]
        )

    def fewest_seeds(self, design: Design, pair: Pair, effect: float, variance: Variance) -> int | None:
        """Fewest of `SEEDS` with which an effect is found with a power of `TARGET`; None where all are too few."""
        place = bisect_left(
            SEEDS, TARGET, key=lambda seeds: self.power(design._replace(seeds=seeds), pair, effect, variance)
        )
        return SEEDS[place] if place < len(SEEDS) else None


def _drawn(components: Components, variance: Variance, studies: int, rng: np.random.Generator) -> np.ndarray:
    """Variances between seeds, on the comparable scale, of each study's arms: (studies, arms) array.

    Arms that are alike have the same variance in a study.
    """
    if variance is Variance.PROBABLE:
        of_all = components.seed.drawn(studies, rng)
        flagged = {arm: components.by_arm[arm].drawn(studies, rng) for arm in components.flagged}
        return np.stack([flagged.get(arm, of_all) for arm in components.means], axis=1)
    parts = [components.seed_of(arm) for arm in components.means]
    if variance is Variance.ESTIMATED:
        return np.tile([part.variance for part in parts], (studies, 1))
    return np.tile([part.ends()[variance is Variance.HIGH] for part in parts], (studies, 1))


def shifts(pairs: Sequence[Pair], arm: str, effect: float) -> np.ndarray:
    """(contrasts,) array: what an effect of one arm adds to each contrast."""
    return np.array([effect * ((one == arm) - (other == arm)) for one, other in pairs])
