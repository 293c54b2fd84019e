"""Seeds of each arm, such that the intervals of the primary contrasts are as short as a limit of hours allows.

The squared margin of a difference of two arms is a sum of three terms: one for each arm, and one for the questions,
which both arms answer. Each term is the squared quantile of Student's t times a variance. So an integer program chooses
the seeds. It has a binary variable for each arm and number of seeds, and squared margins and hours are its linear
coefficients (optimal allocation, as in Cochran, "Sampling Techniques", 1977, section 5.5, for intervals instead of
variances). The margins are those of `analysis.statistics.different_seeds`. If all arms have the same seeds, differences
are paired by seed. So the best equal numbers of seeds are compared with the program's choice, and the better is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from scipy.special import stdtrit

from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.seed_variance import MOST_BORROWED
from reward_ablation.design.variances import Components, Pair
from reward_ablation.system.errors import StudyError

#: Fewest seeds of an arm: one seed does not show how much seeds differ.
FEWEST = 2

#: Most seeds of an arm that are considered, unless more are finished.
MOST = 20

#: Weight of the mean squared margin in the objective, beside the largest squared margin. So hours that do not help the
#: contrast with the largest margin go to the others.
TO_OTHERS = 1e-3

#: Seconds after which the solver's best choice so far is taken, and the relative gap at which a choice is good enough.
TIME_LIMIT, GAP = 60, 1e-4

#: Hours by which a sum may exceed the limit because of rounding.
ROUNDING = 1e-9

#: Power with which the smallest detectable effect is found, and number of simulated tests for it.
POWER, DRAWS = 0.8, 20_000


class TooFewHours(StudyError):
    """The limit of hours is too low for the smallest study, which takes `least` hours."""

    def __init__(self, least: float) -> None:
        super().__init__(f"{least:g} hours is the least")
        self.least = least


@dataclass(frozen=True)
class Precision:
    """Variances behind the intervals of primary contrasts, for one size of the evaluation.

    Attributes
    ----------
    variances : dict of str to float
        Variance between the seeds of each arm, without what a seed does to all arms, in squared units of the metric.
    common : dict of str to float
        Variance of each arm from what a seed does to all arms, in squared units of the metric.
    questions : dict of Pair to float
        Variance of each primary contrast from the choice of questions, in squared units of the metric.
    question_count : int
        Questions of the primary data set.
    confidence : float
        Confidence of the intervals, in (0, 1).
    lends : bool
        Whether arms borrow variances from other arms.
    """

    variances: Mapping[str, float]
    common: Mapping[str, float]
    questions: Mapping[Pair, float]
    question_count: int
    confidence: float
    lends: bool

    def degrees(self, arm: str, seeds: Mapping[str, int]) -> float:
        """Degrees of freedom of an arm's variance. An arm borrows from other arms if two or more have all its seeds."""
        lending = sum(number >= seeds[arm] for number in seeds.values())
        return seeds[arm] - 1 + (MOST_BORROWED if self.lends and lending > 2 else 0.0)

    def terms(self, pair: Pair, seeds: Mapping[str, int]) -> list[tuple[float, float]]:
        """Variances of a contrast with their degrees of freedom.

        Arms with equal numbers of seeds have one variance together, because they are paired by seed. Other arms have
        one each. The last variance is that of the questions.
        """
        of_questions = (self.questions[pair], max(self.question_count - 1.0, 1.0))
        if seeds[pair[0]] == seeds[pair[1]]:
            number = seeds[pair[0]]
            together = sum(self.variances[arm] for arm in pair) / number
            return [(together, self.degrees(pair[0], seeds)), of_questions]
        of_arms = [((self.variances[arm] + self.common[arm]) / seeds[arm], self.degrees(arm, seeds)) for arm in pair]
        return [*of_arms, of_questions]

    def margin(self, pair: Pair, seeds: Mapping[str, int]) -> float:
        """Half the expected length of a contrast's interval."""
        level = (1 + self.confidence) / 2
        return math.sqrt(sum(variance * quantile(degrees, level) ** 2 for variance, degrees in self.terms(pair, seeds)))

    def detectable(self, pair: Pair, seeds: Mapping[str, int], tests: int) -> float:
        """Smallest difference that is found with a power of `POWER`, at Holm's first level over this many tests."""
        terms, rng = self.terms(pair, seeds), generator("budget")
        level = 1 - (1 - self.confidence) / tests / 2
        squares = np.zeros(DRAWS)
        for variance, degrees in terms:
            squares += variance * quantile(degrees, level) ** 2 * rng.chisquare(degrees, DRAWS) / degrees
        error = math.sqrt(sum(variance for variance, _ in terms)) * rng.normal(size=DRAWS)
        return float(np.quantile(np.sqrt(squares) - error, POWER))


@cache
def quantile(degrees: float, level: float) -> float:
    """Quantile of Student's t. It is cached because the same few degrees of freedom occur often."""
    return float(stdtrit(degrees, level))


def precision_of(components: Components, questions: int, samples: int, confidence: float, lends: bool) -> Precision:
    """Variances behind a study's intervals, with this many questions and samples per question."""
    return Precision(
        variances={arm: components.seed_variance(arm, questions, samples) for arm in components.means},
        common={arm: components.slope(arm) ** 2 * components.seed.common for arm in components.means},
        questions={pair: variance / questions for pair, variance in components.question.items()},
        question_count=questions,
        confidence=confidence,
        lends=lends,
    )


@dataclass(frozen=True)
class Problem:
    """The problem of choosing seeds.

    Attributes
    ----------
    precision : Precision
        Variances behind the intervals.
    hours : dict of str to float
        Hours of one more run of each arm, with its evaluations.
    finished : dict of str to int
        Number of finished runs of each arm, which cost nothing and are kept.
    fixed : float
        Hours that are spent with any choice, such as evaluations of finished runs at another size.
    needed : frozenset of str
        Arms that cannot be left out.
    weights : dict of Pair to float, optional
        Minimise the sum of squared margins with these weights. The default is to minimise the largest squared margin.
    most : int
        Most seeds of an arm, unless more are finished.
    """

    precision: Precision
    hours: Mapping[str, float]
    finished: Mapping[str, int] = field(default_factory=dict)
    fixed: float = 0.0
    needed: frozenset[str] = frozenset()
    weights: Mapping[Pair, float] | None = None
    most: int = MOST

    @property
    def pairs(self) -> list[Pair]:
        """The primary contrasts."""
        return list(self.precision.questions)

    @property
    def contrasted(self) -> set[str]:
        """Arms of the primary contrasts."""
        return {arm for pair in self.pairs for arm in pair}

    def options(self, arm: str) -> list[int]:
        """Numbers of seeds that an arm may have. 0 leaves the arm out.

        An arm in no contrast keeps its finished seeds, or gets the fewest seeds if it is needed.
        """
        finished = self.finished.get(arm, 0)
        if arm not in self.contrasted:
            return [max(finished, FEWEST) if arm in self.needed else finished]
        least = max(finished, FEWEST)
        numbers = list(range(least, max(self.most, least) + 1))
        return numbers if finished or arm in self.needed else [0, *numbers]

    def cost(self, seeds: Mapping[str, int]) -> float:
        """Hours that a choice still takes."""
        more = {arm: max(number - self.finished.get(arm, 0), 0) for arm, number in seeds.items()}
        return self.fixed + sum(number * self.hours[arm] for arm, number in more.items())

    def kept(self, seeds: Mapping[str, int]) -> list[Pair]:
        """The contrasts whose arms are both in the study."""
        return [pair for pair in self.pairs if all(seeds[arm] for arm in pair)]

    def value(self, seeds: Mapping[str, int]) -> tuple[float, ...]:
        """Objective of a choice: first the number of contrasts that are left out, then squared margins."""
        kept_arms = {arm: number for arm, number in seeds.items() if number}
        squares = {pair: self.precision.margin(pair, kept_arms) ** 2 for pair in self.kept(seeds)}
        lost = float(len(self.pairs) - len(squares))
        if self.weights is not None:
            return lost, sum(self.weights[pair] * square for pair, square in squares.items())
        return lost, max(squares.values(), default=0.0), sum(squares.values())


def choose(problem: Problem, limit: float) -> dict[str, int]:
    """Choose the number of seeds of each arm within a limit of hours; 0 leaves an arm out.

    Raises
    ------
    TooFewHours
        The limit is too low for one contrast and the fewest seeds of all needed arms.
    """
    least = {arm: problem.options(arm)[0] for arm in problem.hours}
    first = [{**least, **{arm: max(least[arm], FEWEST) for arm in pair}} for pair in problem.pairs]
    hours = min(problem.cost(seeds) for seeds in first)
    if hours > limit + ROUNDING:
        raise TooFewHours(hours)
    choices = [*first, program(problem, limit), equal_seeds(problem, limit)]
    possible = [seeds for seeds in choices if seeds is not None and problem.cost(seeds) <= limit + ROUNDING]
    return min(possible, key=problem.value)


def equal_seeds(problem: Problem, limit: float) -> dict[str, int] | None:
    """The best choice with the same number of seeds for all arms of the contrasts, unless an arm has more finished.

    None if the limit is too low for two seeds.
    """
    chosen = None
    for number in range(FEWEST, problem.most + 1):
        seeds = {
            arm: max(number, problem.finished.get(arm, 0)) if arm in problem.contrasted else problem.options(arm)[0]
            for arm in problem.hours
        }
        if problem.cost(seeds) <= limit + ROUNDING:
            chosen = seeds
    return chosen


def program(problem: Problem, limit: float) -> dict[str, int] | None:
    """Choice of the integer program, whose margins treat the seeds of all arms as independent.

    None if the solver finds no choice in time.
    """
    import pulp  # no other target needs it

    model = pulp.LpProblem("budget", pulp.LpMinimize)
    options = {arm: problem.options(arm) for arm in problem.hours}
    chosen = {
        arm: {number: model.add_variable(f"x{arm_number}_{number}", cat=pulp.LpBinary) for number in numbers}
        for arm_number, (arm, numbers) in enumerate(options.items())
    }
    squares, questions = coefficients(problem, options)
    of_pairs = {
        pair: questions[pair]
        + pulp.lpSum(squares[arm][number] * chosen[arm][number] for arm in pair for number in options[arm] if number)
        for pair in problem.pairs
    }
    widest = model.add_variable("widest", lowBound=0)
    weights = problem.weights or dict.fromkeys(problem.pairs, TO_OTHERS / len(problem.pairs))
    lost = [chosen[arm][0] for pair in problem.pairs for arm in pair if 0 in chosen[arm]]
    # Squared margins are at most 1 here, so no smaller margin makes up for a contrast that is left out.
    total = pulp.lpSum(weights[pair] * square for pair, square in of_pairs.items())
    total += widest * (problem.weights is None) + 2 * (1 + sum(weights.values())) * pulp.lpSum(lost)
    model += total
    for of_arm in chosen.values():
        model += pulp.lpSum(of_arm.values()) == 1
    for square in of_pairs.values():
        model += square <= widest
    more = [
        max(number - problem.finished.get(arm, 0), 0) * problem.hours[arm] * variable
        for arm, of_arm in chosen.items()
        for number, variable in of_arm.items()
    ]
    model += pulp.lpSum(more) <= limit - problem.fixed
    model.solve(pulp.PULP_CBC_CMD(msg=False, timeLimit=TIME_LIMIT, gapRel=GAP))
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return None
    return {arm: max(of_arm, key=lambda number: of_arm[number].value()) for arm, of_arm in chosen.items()}


def coefficients(
    problem: Problem, options: Mapping[str, list[int]]
) -> tuple[dict[str, dict[int, float]], dict[Pair, float]]:
    """Coefficients of the integer program.

    Returns
    -------
    The squared margins by arm and number of seeds, and by the questions of each contrast, as shares of the largest
    squared margin of a contrast. An arm is taken to borrow if the contrasts have three arms or more: two others then
    usually have all of its seeds.
    """
    precision, level = problem.precision, (1 + problem.precision.confidence) / 2
    borrowed = MOST_BORROWED if precision.lends and len(problem.contrasted) > 2 else 0.0
    variances = {arm: precision.variances[arm] + precision.common[arm] for arm in problem.contrasted}
    squares = {
        arm: {
            number: variance / number * quantile(number - 1 + borrowed, level) ** 2 for number in options[arm] if number
        }
        for arm, variance in variances.items()
    }
    of_questions = quantile(max(precision.question_count - 1.0, 1.0), level) ** 2
    questions = {pair: variance * of_questions for pair, variance in precision.questions.items()}
    largest = max(sum(max(squares[arm].values()) for arm in pair) + questions[pair] for pair in problem.pairs) or 1.0
    return (
        {arm: {number: value / largest for number, value in of_arm.items()} for arm, of_arm in squares.items()},
        {pair: value / largest for pair, value in questions.items()},
    )
