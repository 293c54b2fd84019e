"""Variance components of a study's primary metric: between seeds, between questions, and what is left of an answer.

The mean of an arm's seed over Q questions with n samples each varies by

    slope² (common + seed) + (interaction + sample / n) / Q

where `common` is what a seed does to all arms alike, `seed` what a seed does to one arm, both on the scale on which
`analysis.statistics.seed_variance` compares arms, and `slope` has the units of the metric per unit of that scale. A
difference of two arms has no common part. Its questions add `question` / Q, whatever the number of seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from reward_ablation.analysis.statistics.estimates import mean_squares
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.system.errors import StudyError

#: Confidence of the interval of the variance between seeds. Browne ("On the use of a pilot sample for sample size
#: determination", Statistics in Medicine 1995) plans with the upper end of such an interval.
CONFIDENCE = 0.8

#: Two arms, of which the first is compared with the second.
Pair = tuple[str, str]


class SeedPart(NamedTuple):
    """Variance between seeds on the comparable scale, with the noise of finitely many questions still in it.

    Attributes
    ----------
    total : float
        Mean square of what a seed does to one arm.
    noise : float
        The part of `total` that more questions or samples would take away.
    degrees : float
        Degrees of freedom of `total`; infinite for a stated value.
    common : float
        Variance of what a seed does to all arms alike.
    """

    total: float
    noise: float
    degrees: float
    common: float = 0.0

    @property
    def variance(self) -> float:
        """Variance between seeds with any number of questions."""
        return max(self.total - self.noise, 0.0)

    def ends(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Ends of the chi-square interval of `variance`; one stated value is certain."""
        if not np.isfinite(self.degrees):
            return self.variance, self.variance
        squares = [self.total * self.degrees / chdtri(self.degrees, (1 + sign * confidence) / 2) for sign in (-1, 1)]
        low, high = (max(square - self.noise, 0.0) for square in squares)
        return low, high

    def drawn(self, studies: int, rng: np.random.Generator) -> np.ndarray:
        """(studies,) array: variances that are as probable as the pilot's degrees of freedom say."""
        if not np.isfinite(self.degrees):
            return np.full(studies, self.variance)
        return np.maximum(self.total * self.degrees / rng.chisquare(self.degrees, studies) - self.noise, 0.0)


@dataclass(frozen=True)
class Components:
    """Variance components of one metric on one data set in one mode.

    Attributes
    ----------
    limits : Limits
        Of the metric.
    means : dict of str to float
        Mean of each arm.
    seed : SeedPart
        Variance between seeds, of all arms together.
    interaction : dict of str to float
        Variance of an arm's answer to a question from seed to seed, without the noise of sampling; squared units.
    sample : dict of str to float
        Variance of a single sampled answer about the seed's mean at this question; 0 for greedy answers.
    question : dict of Pair to float
        Variance of a difference between questions.
    questions, samples, seeds : int
        What the pilot had; seeds is the largest number of any arm.
    source : str
        Where the components are from, for people.
    by_arm : dict of str to SeedPart
        Variance between seeds of each arm with two or more seeds, from this arm alone.
    flagged : tuple of str
        Arms whose seeds differ more than chance allows, as the tables flag them: their own variance counts.
    """

    limits: Limits
    means: Mapping[str, float]
    seed: SeedPart
    interaction: Mapping[str, float]
    sample: Mapping[str, float]
    question: Mapping[Pair, float]
    questions: int
    samples: int
    seeds: int
    source: str
    by_arm: Mapping[str, SeedPart] = field(default_factory=dict)
    flagged: tuple[str, ...] = ()

    def seed_of(self, arm: str) -> SeedPart:
        """Variance between an arm's seeds: that of all arms, or a flagged arm's own."""
        return self.by_arm[arm] if arm in self.flagged else self.seed

    def slope(self, arm: str) -> float:
        """Units of the metric per unit of the comparable scale, at an arm's mean."""
        means = SeedMeans([arm], [0], np.full((1, 1, 1), self.means[arm]), [self.limits], self.questions)
        return float(means.slope[0, 0])

    def answer_variance(self, arm: str, questions: int, samples: int) -> float:
        """Variance of a seed's mean that comes of its answers to so many questions, with so many samples each."""
        return (self.interaction[arm] + self.sample[arm] / samples) / questions

    def seed_variance(self, arm: str, questions: int, samples: int) -> float:
        """Variance of an arm's seed means, in squared units of the metric, without what all arms have in common."""
        of_seed = self.slope(arm) ** 2 * self.seed_of(arm).variance
        return of_seed + self.answer_variance(arm, questions, samples)

    def seed_deviation(self, arm: str) -> float:
        """Standard deviation between an arm's seeds with any number of questions, in units of the metric."""
        return self.slope(arm) * float(np.sqrt(self.seed_of(arm).variance + self.seed.common))

    def for_arms(self, arms: Iterable[str], pairs: Iterable[Pair]) -> Components:
        """The same for the arms and pairs of a study; an arm or a pair without a value has the mean of the others."""
        names, wanted = list(arms), list(pairs)

        def filled(of: Mapping[str, float]) -> dict[str, float]:
            usual = float(np.mean([*of.values()]))
            return {name: of.get(name, usual) for name in names}

        usual = float(np.mean([*self.question.values()])) if self.question else 0.0
        known = {**{(b, a): value for (a, b), value in self.question.items()}, **self.question}
        return replace(
            self,
            means=filled(self.means),
            interaction=filled(self.interaction),
            sample=filled(self.sample),
            question={pair: known.get(pair, usual) for pair in wanted},
            by_arm={name: value for name, value in self.by_arm.items() if name in names},
            flagged=tuple(name for name in self.flagged if name in names),
        )


def estimated(
    values: Mapping[str, Mapping[int, np.ndarray]],
    samples: int,
    sample: Mapping[str, float],
    limits: Limits,
    pairs: Iterable[Pair],
    source: str,
) -> Components:
    """Variance components of the answers of a pilot.

    Parameters
    ----------
    values : dict of dict of (questions,) arrays
        Question means by arm and seed, the questions in the same order.
    samples : int
        Answers to each question.
    sample : dict of str to float
        Variance of a single answer about its question's mean, by arm; 0 where samples are not drawn.
    limits : Limits
        Of the metric.
    pairs : iterable of Pair
        Comparisons whose questions count.
    source : str
        Where the answers are from.

    Raises
    ------
    StudyError
        No arm has two seeds.
    """
    several = {arm: np.stack([*of_seeds.values()]) for arm, of_seeds in values.items() if len(of_seeds) > 1}
    if not several:
        raise StudyError(f"{source}: no arm has two finished seeds, which say how much seeds differ; state seed_sd")
    residual = {arm: float(mean_squares(of_arm[None]).residual[0]) for arm, of_arm in several.items()}
    means = seed_means(values, limits)
    noise = noise_of(means, residual)
    by_arm = {
        arm: SeedPart(float(squares / degrees), noise[arm], float(degrees))
        for arm, squares, degrees in zip(means.arms, means.squares[0], means.degrees, strict=True)
        if arm in residual
    }
    flagged = [arm for arm, flag in zip(means.arms, means.flagged[0], strict=True) if flag]
    return Components(
        limits=limits,
        means={arm: float(np.mean([*of_seeds.values()])) for arm, of_seeds in values.items()},
        seed=seed_part(means, noise),
        interaction={arm: max(float(of_arm) - sample[arm] / samples, 0.0) for arm, of_arm in residual.items()},
        sample=dict(sample),
        question=question_variances(values, pairs),
        questions=means.questions,
        samples=samples,
        seeds=max(map(len, values.values())),
        source=source,
        by_arm=by_arm,
        flagged=tuple(flagged),
    )


def seed_means(values: Mapping[str, Mapping[int, np.ndarray]], limits: Limits) -> SeedMeans:
    """Means of arms by seed, as the tables compare them."""
    arms, seeds = [*values], sorted({seed for of_seeds in values.values() for seed in of_seeds})
    means = [[np.mean(values[arm][seed]) if seed in values[arm] else np.nan for seed in seeds] for arm in arms]
    questions = len(next(iter(next(iter(values.values())).values())))
    return SeedMeans(arms, seeds, np.array(means)[None], [limits], questions)


def noise_of(means: SeedMeans, residual: Mapping[str, float]) -> dict[str, float]:
    """Variance of each arm's seed means that finitely many questions and samples make, on the comparable scale.

    `residual` is the mean square of seeds by questions of each arm with two or more seeds.
    """
    slopes = dict(zip(means.arms, means.slope[0], strict=True))
    return {arm: float(square / (means.questions * slopes[arm] ** 2)) for arm, square in residual.items()}


def seed_part(means: SeedMeans, noise: Mapping[str, float]) -> SeedPart:
    """Variance between seeds, of all arms whose seeds differ alike.

    With the seeds that all these arms have, arms by seeds are a two-way table. Its interaction is what a seed does to
    one arm, and the mean over arms has what a seed does to all. Where arms share fewer than two seeds, each arm's own
    variance is averaged by its degrees of freedom, and nothing is known of a common part.

    Parameters
    ----------
    means : SeedMeans
        Of one metric.
    noise : dict of str to float
        By `noise_of`.
    """
    first = np.unique(means.kind, return_index=True)[1]
    chosen = [place for place in sorted(first) if means.degrees[place] and not means.flagged[0, place]]
    chosen = chosen or [int(np.argmax(means.degrees))]
    usual = float(np.mean([noise[means.arms[place]] for place in chosen]))
    shared = means.known[chosen].all(axis=0)
    if shared.sum() < 2:
        degrees = float(means.degrees[chosen].sum())
        return SeedPart(float(means.squares[0, chosen].sum() / degrees), usual, degrees)
    table = means.centred[0][chosen][:, shared]
    table = table - table.mean(axis=1, keepdims=True)
    arms, seeds = table.shape
    if arms == 1:
        return SeedPart(float((table**2).sum() / (seeds - 1)), usual, seeds - 1.0)
    mean = table.mean(axis=0)
    degrees = (arms - 1.0) * (seeds - 1)
    total = float(((table - mean) ** 2).sum() / degrees)
    return SeedPart(total, usual, degrees, max(float((mean**2).sum() / (seeds - 1)) - total / arms, 0.0))


def question_variances(values: Mapping[str, Mapping[int, np.ndarray]], pairs: Iterable[Pair]) -> dict[Pair, float]:
    """Variance of differences between questions, for the pairs whose arms share two seeds."""
    found = {}
    for one, other in pairs:
        shared = [seed for seed in values.get(one, ()) if seed in values.get(other, ())]
        if len(shared) > 1:
            squares = mean_squares(np.stack([values[one][seed] - values[other][seed] for seed in shared])[None])
            found[one, other] = float(max(squares.question[0] - squares.residual[0], 0.0) / len(shared))
    return found


#: Of a study without answers: variance of a single answer to a question of a share, over mean * (1 - mean), and the
#: standard deviation of a difference between questions. The first is that of benchmarks/coverage.py, where the
#: difficulty of questions has a standard deviation of 1.5 on the logistic scale.
USUAL_SHARE_OF_SAMPLING, USUAL_QUESTION_SD = 0.7, 0.2


class Stated(NamedTuple):
    """Values that the user states, in units of the metric; None where the user states none.

    Attributes
    ----------
    seed_sd : float or None
        Standard deviation between the seeds of one arm.
    question_sd : float or None
        Standard deviation of a difference of two arms between questions.
    answer_sd : float or None
        Standard deviation of a single answer to one question, over seeds and samples.
    mean : float or None
        Mean of every arm.
    """

    seed_sd: float | None = None
    question_sd: float | None = None
    answer_sd: float | None = None
    mean: float | None = None


def stated(
    values: Stated, limits: Limits, questions: int, samples: int, greedy: bool, arms: list[str], pairs: list[Pair]
) -> Components:
    """Variance components from stated values, and usual ones for what is left out; `source` says which.

    Of greedy answers, all variance of an answer is from seed to seed. Of sampled answers, all of it is noise.

    Raises
    ------
    StudyError
        A value that is needed is missing, or outside of the metric's range.
    """
    if values.seed_sd is None:
        raise StudyError("seed_sd: how much seeds differ is not known; state it, or name a pilot")
    share = limits.finite
    mean, answer_sd = values.mean, values.answer_sd
    if mean is None and share:
        mean = (limits.low + limits.high) / 2
    if mean is None or not limits.low <= mean <= limits.high:
        raise StudyError(f"mean: state a mean of the metric between {limits.low:g} and {limits.high:g}")
    if answer_sd is None and not share:
        raise StudyError("answer_sd: a metric without limits needs the standard deviation of an answer; state it")
    if values.question_sd is None and not share:
        raise StudyError("question_sd: a metric without limits needs that of a difference between questions; state it")
    width = limits.high - limits.low
    if answer_sd is None:
        answer_sd = float(np.sqrt(USUAL_SHARE_OF_SAMPLING * (mean - limits.low) * (limits.high - mean)))
    question_sd = USUAL_QUESTION_SD * width if values.question_sd is None else values.question_sd
    usual = [name for name in ("mean", "answer_sd", "question_sd") if getattr(values, name) is None]
    source = f"stated (seed_sd {values.seed_sd:g})" + (f", usual values of {', '.join(usual)}" if usual else "")
    certain = Components(
        limits=limits,
        means={arm: float(mean) for arm in arms},
        seed=SeedPart(0.0, 0.0, np.inf),
        interaction=dict.fromkeys(arms, answer_sd**2 if greedy else 0.0),
        sample=dict.fromkeys(arms, 0.0 if greedy else answer_sd**2),
        question=dict.fromkeys(pairs, question_sd**2),
        questions=questions,
        samples=samples,
        seeds=0,
        source=source,
    )
    return overridden(certain, Stated(seed_sd=values.seed_sd))


def overridden(components: Components, values: Stated) -> Components:
    """Components with the stated values in place of those of a pilot; what is stated counts as certain."""
    changes: dict[str, Any] = {}
    arms, pairs = list(components.means), list(components.question)
    if values.mean is not None:
        changes["means"] = dict.fromkeys(arms, values.mean)
        components = replace(components, **changes)
    if values.seed_sd is not None:
        slope = float(np.mean([components.slope(arm) for arm in arms]))
        changes["seed"] = SeedPart((values.seed_sd / slope) ** 2, 0.0, np.inf)
        changes["flagged"] = ()
    if values.question_sd is not None:
        changes["question"] = dict.fromkeys(pairs, values.question_sd**2)
    if values.answer_sd is not None:
        drawn = any(components.sample.values())
        changes["interaction"] = dict.fromkeys(arms, 0.0 if drawn else values.answer_sd**2)
        changes["sample"] = dict.fromkeys(arms, values.answer_sd**2 if drawn else 0.0)
    named = [f"{name} {value:g}" for name, value in values._asdict().items() if value is not None]
    if components.seeds and named:
        changes["source"] = f"{components.source}; stated: {', '.join(named)}"
    return replace(components, **changes)
