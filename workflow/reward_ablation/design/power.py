"""Power and interval lengths of the primary contrasts, by numbers of seeds, questions and samples.

`reward-ablation power` makes a `Plan`, and writes and draws its table. No rule runs it.

Studies are simulated by their summary statistics: the means of all arms' seeds, the mean squares of questions, and the
residual mean squares. Variances, margins and Holm's decisions follow from these as in the tables
(`analysis.statistics`): variances between seeds borrow from the other arms, and the margins of seeds and questions are
added by the root of the sum of their squares. Only the bootstrap is replaced, by a normal distribution.
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

#: Simulated studies of a design. The standard error of a power is then at most 1.1 percentage points.
STUDIES = 2000

#: Power that a study is planned for.
TARGET = 0.8

#: Numbers of seeds among which `Plan.fewest_seeds` chooses.
SEEDS = [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30]

#: Quantiles between which 80 % of the interval lengths lie.
RANGE = (0.1, 0.9)

#: Function of the number of studies and a random generator. It returns the variances between seeds of the arms in each
#: study as a (studies, arms) array, on the comparable scale.
Variances = Callable[[int, np.random.Generator], np.ndarray]


class Variance(Enum):
    """Assumption of the simulated studies on the variance between seeds."""

    ESTIMATED = "the estimate"
    LOW = "the lower end of its interval"
    HIGH = "the upper end of its interval"
    PROBABLE = "values that are as probable as the pilot says"


class Design(NamedTuple):
    """Size of a study: seeds per arm, questions of the primary data set, samples per question."""

    seeds: int
    questions: int
    samples: int


class Analysis(NamedTuple):
    """How a study is analysed."""

    pairs: list[Pair]  # the primary contrasts
    confidence: float  # of the intervals, in (0, 1)
    lends: bool  # whether arms borrow variances from other arms


@dataclass
class Simulated:
    """Simulated studies of one design."""

    errors: np.ndarray  # (contrasts, studies): estimate minus true value
    distributions: list[Distribution]  # of each contrast, with `errors` as its estimates, and studies for metrics
    alpha: float  # one minus the confidence
    _critical: dict[int, np.ndarray] = field(default_factory=dict)

    def critical(self, tests: int) -> np.ndarray:
        """(contrasts, studies) array: estimates beyond these are significant at a level of alpha / `tests`."""
        if tests not in self._critical:
            level = self.alpha / tests / 2
            margins = [contrast.margin(lambda degrees: -stdtrit(degrees, level)) for contrast in self.distributions]
            self._critical[tests] = np.array(margins)
        return self._critical[tests]

    def found(self, effects: Sequence[float] | np.ndarray) -> np.ndarray:
        """(contrasts, studies) bool: contrasts of true `effects` that are significant after Holm's correction."""
        estimates = np.abs(self.errors + np.asarray(effects)[:, None])
        contrasts, studies = estimates.shape
        rejected = np.zeros(studies, dtype=int)
        while True:
            significant = np.empty(estimates.shape, dtype=bool)
            for count in np.unique(rejected):
                same = rejected == count
                significant[:, same] = estimates[:, same] > self.critical(max(contrasts - count, 1))[:, same]
            if (significant.sum(axis=0) == rejected).all():
                return significant
            rejected = significant.sum(axis=0)

    def lengths(self, contrast: int, truth: float) -> np.ndarray:
        """(studies,) array: lengths of a contrast's intervals, which are cut off at the limits of the metric."""
        low, high = self.distributions[contrast].low, self.distributions[contrast].high
        margin, estimate = self.critical(1)[contrast], self.errors[contrast] + truth
        return np.asarray(np.clip(estimate + margin, low, high) - np.clip(estimate - margin, low, high))

    def detectable(self, contrast: int) -> float:
        """Smallest effect of a contrast that is found with a power of `TARGET`, at Holm's first level."""
        return float(np.quantile((self.critical(len(self.errors)) - self.errors)[contrast], TARGET))


def simulate(
    components: Components, analysis: Analysis, design: Design, variances: Variances, studies: int
) -> Simulated:
    """Simulate studies, the same for the same arguments; contrasts with a common arm have correlated questions."""
    rng = generator("power", *map(str, design))
    arms = list(components.means)
    means = seed_means(components, design, variances(studies, rng), rng)
    # The statistics are computed for all studies at once: these take the place of metrics.
    values = SeedMeans(arms, list(range(design.seeds)), means, [components.limits] * studies, design.questions)
    of_questions = rng.normal(size=(len(arms), studies))
    limits = limits_of([components.limits], (-1.0, 1.0))
    truths = [components.means[arm] for arm in arms]
    errors, distributions = [], []
    for one, other in analysis.pairs:
        first, second = arms.index(one), arms.index(other)
        of_seeds = means[:, first] - means[:, second]
        question = components.question[one, other]
        question_score = (of_questions[first] - of_questions[second]) / np.sqrt(2)  # of variance 1
        true = truths[first] - truths[second]
        errors.append(of_seeds.mean(axis=1) - true + question_score * np.sqrt(question / design.questions))
        squares = mean_squares_of(components, (one, other), design, of_seeds, rng)
        spread = spread_of(squares, design.seeds, design.questions)
        if analysis.lends:
            spread = moderated(spread, design.seeds, values.of_contrast({one: 1.0, other: -1.0}, values.seeds))
        no_bootstrap = np.empty((0, studies))
        distributions.append(Distribution(errors[-1], spread, no_bootstrap, *limits, design.seeds, design.questions))
    return Simulated(np.array(errors), distributions, 1 - analysis.confidence)


def seed_means(components: Components, design: Design, variances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw (studies, arms, seeds) means; `variances`, (studies, arms), are between seeds on the comparable scale."""
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
    """Draw the mean squares of a contrast; `of_seeds` are its means in each study by seed, (studies, seeds)."""
    seeds, questions, samples = design
    answers = sum(components.answer_variance(arm, questions, samples) for arm in pair) * questions
    rest_degrees, degrees = max((seeds - 1) * (questions - 1), 1), max(questions - 1, 1)
    rest = answers * rng.chisquare(rest_degrees, len(of_seeds)) / rest_degrees
    question = answers + seeds * components.question[pair]
    of_questions = question * rng.chisquare(degrees, len(of_seeds)) / degrees
    return MeanSquares(questions * of_seeds.var(axis=1, ddof=1), of_questions, rest)


class Plan:
    """Expected results of studies of several designs. Each design is simulated once per assumption on the variances."""

    def __init__(self, components: Components, analysis: Analysis, studies: int = STUDIES) -> None:
        self.components = components
        self.analysis = analysis
        self.studies = studies
        self.simulated = cache(self._simulated)

    def _simulated(self, design: Design, variance: Variance) -> Simulated:
        drawn = partial(_drawn, self.components, variance)
        return simulate(self.components, self.analysis, design, drawn, self.studies)

    def power(self, design: Design, pair: Pair, effect: float, variance: Variance = Variance.ESTIMATED) -> float:
        """Probability that Holm's test finds the effect of a contrast's arm, if all other arms are alike."""
        significant = self.simulated(design, variance).found(shifts(self.analysis.pairs, pair[0], effect))
        return float(significant[self.analysis.pairs.index(pair)].mean())

    def row(self, design: Design, pair: Pair, effect: float) -> dict[str, Any]:
        """A row of the table that `table` returns."""
        truth = self.components.means[pair[0]] - self.components.means[pair[1]]
        contrast = self.analysis.pairs.index(pair)
        estimated, probable = (
            self.simulated(design, each).lengths(contrast, truth) for each in (Variance.ESTIMATED, Variance.PROBABLE)
        )
        low, high = np.quantile(probable, RANGE)
        variances = Variance.ESTIMATED, Variance.LOW, Variance.HIGH
        powers = [self.power(design, pair, effect, variance) for variance in variances]
        return {
            **{"arm": pair[0], "against": pair[1], "effect": effect, **design._asdict()},
            **{"length": estimated.mean(), "length_low": low, "length_high": high},
            "detectable": self.simulated(design, Variance.ESTIMATED).detectable(contrast),
            **{"power": powers[0], "power_low": min(powers), "power_high": max(powers)},
        }

    def table(self, designs: Sequence[Design], effects: Sequence[float]) -> pd.DataFrame:
        """One row for each contrast, design and effect.

        Beside the columns that name the row (arm, against, effect, seeds, questions, samples), it has:

        - length: mean length of the interval, with the estimated variance between seeds
        - length_low, length_high: 80 % of the lengths are in between, with variances as probable as the pilot says
        - detectable: smallest effect with a power of 80 %
        - power: probability that Holm's test finds the effect, with the estimated variance between seeds
        - power_low, power_high: lowest and highest power among three variances between seeds: the estimate, and the
          ends of its 80 % interval
        """
        pairs = self.analysis.pairs
        return pd.DataFrame(
            [self.row(design, pair, effect) for pair in pairs for design in designs for effect in effects]
        )

    def fewest_seeds(self, design: Design, pair: Pair, effect: float, variance: Variance) -> int | None:
        """Fewest of `SEEDS` that find an effect with power `TARGET`, None if none do; a search, as power grows."""
        first = bisect_left(
            SEEDS, TARGET, key=lambda seeds: self.power(design._replace(seeds=seeds), pair, effect, variance)
        )
        return SEEDS[first] if first < len(SEEDS) else None


def _drawn(components: Components, variance: Variance, studies: int, rng: np.random.Generator) -> np.ndarray:
    """(studies, arms) variances between seeds on the comparable scale; arms that are not flagged have the same one."""
    if variance is Variance.PROBABLE:
        of_all = components.seed.drawn(studies, rng)
        flagged = {arm: components.by_arm[arm].drawn(studies, rng) for arm in components.flagged}
        return np.stack([flagged.get(arm, of_all) for arm in components.means], axis=1)
    parts = [components.seed_of(arm) for arm in components.means]
    if variance is Variance.ESTIMATED:
        return np.tile([part.variance for part in parts], (studies, 1))
    return np.tile([part.ends()[variance is Variance.HIGH] for part in parts], (studies, 1))


def shifts(pairs: Sequence[Pair], arm: str, effect: float) -> np.ndarray:
    """(contrasts,) array: true values of the contrasts if only `arm` has an effect."""
    return np.array([effect * ((one == arm) - (other == arm)) for one, other in pairs])
