"""Seeds of each arm, such that the intervals of the primary contrasts are as short as a limit of hours allows.

`reward-ablation budget` calls `choose`, with variances of a pilot or stated ones, and the hours that runs take.

A margin is half the length of an interval. The squared margin of a difference is the squared margin of its seeds plus
that of the questions, which both arms answer. Seeds are compared paired, by those that both arms have, or by all seeds
of each arm, whichever has the smaller margin (`analysis.evaluation.answers`); paired if both have as many. A squared
margin is a squared quantile of Student's t times a variance. An integer program with these coefficients chooses arms
and seeds (optimal allocation, as in Cochran, "Sampling Techniques", 1977, section 5.5, for intervals instead of
variances). It has a binary variable for each arm, number of seeds, and whether the arm borrows variance from other
arms, and divides each contrast over the two comparisons. So its choice is the best, unless the solver runs out of time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.statistics.seed_variance import most_borrowed
from reward_ablation.design.variances import Components, Pair
from reward_ablation.system.errors import StudyError

#: Fewest seeds of an arm: one seed does not show how much seeds differ.
FEWEST = 2

#: Most seeds of an arm that are considered, unless more are finished: a free choice.
MOST = 20

#: Weight of the mean squared margin in the objective, beside the largest squared margin, whose weight is 1. So hours
#: that do not help the contrast with the largest margin go to the others.
TO_OTHERS = 1e-3

#: The solver's constraints hold to 1e-7 of their units. A squared margin may therefore be off by about this share.
TOLERANCE = 1e-5

#: Seconds after which the solver's best choice so far is taken, and the relative gap at which a choice is good enough.
TIME_LIMIT, GAP = 20, 1e-7

#: Fewest arms with a seed from which an arm borrows a variance: itself and two others. A contrast borrows from those
#: that are orthogonal to it (`analysis.statistics.seed_variance`), and with two arms there is none.
LENDING = 3

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
    """Variances behind the intervals of primary contrasts for one size of the evaluation, in squared metric units."""

    variances: Mapping[str, float]  # between the seeds of each arm, without what a seed does to all arms
    common: Mapping[str, float]  # of each arm, from what a seed does to all arms
    questions: Mapping[Pair, float]  # of each primary contrast, from the choice of questions
    question_count: int  # of the primary data set
    confidence: float  # of the intervals, in (0, 1)
    lends: bool  # whether arms borrow variances from other arms

    def borrowing(self, seeds: Mapping[str, int]) -> dict[str, bool]:
        """Whether each arm borrows from the others: if `lends`, and `LENDING` arms have its number of seeds or more."""
        numbers = seeds.values()
        return {arm: self.lends and sum(each >= number for each in numbers) >= LENDING for arm, number in seeds.items()}

    def paired(self, pair: Pair, seeds: int, borrows: bool) -> tuple[float, float]:
        """Variance of a contrast by the seeds that both arms have, and its degrees of freedom."""
        return sum(self.variances[arm] for arm in pair) / seeds, degrees(seeds, borrows)

    def alone(self, arm: str, seeds: int, borrows: bool) -> tuple[float, float]:
        """Variance of an arm's mean over all of its seeds, and its degrees of freedom."""
        return (self.variances[arm] + self.common[arm]) / seeds, degrees(seeds, borrows)

    def of_questions(self, pair: Pair) -> tuple[float, float]:
        """Variance of a contrast from the questions, and its degrees of freedom."""
        return self.questions[pair], max(self.question_count - 1.0, 1.0)

    def square(self, *terms: tuple[float, float]) -> float:
        """Mean squared margin of an interval; a term is a variance with its degrees of freedom."""
        level = (1 + self.confidence) / 2
        return sum(variance * quantile(freedom, level) ** 2 for variance, freedom in terms)

    def terms(self, pair: Pair, seeds: Mapping[str, int]) -> list[tuple[float, float]]:
        """Variances of a contrast with their degrees of freedom: one or two from the seeds, and last the questions'."""
        borrows = self.borrowing(seeds)
        fewer = min(pair, key=lambda arm: seeds[arm])
        paired = [self.paired(pair, seeds[fewer], borrows[fewer])]
        alone = [self.alone(arm, seeds[arm], borrows[arm]) for arm in pair]
        are_equal = len({seeds[arm] for arm in pair}) == 1
        shorter = paired if are_equal or self.square(*paired) <= self.square(*alone) else alone
        return [*shorter, self.of_questions(pair)]

    def margin(self, pair: Pair, seeds: Mapping[str, int]) -> float:
        """Half the length of a contrast's interval, as a root mean square over studies, as the squares can be added."""
        return math.sqrt(self.square(*self.terms(pair, seeds)))

    def detectable(self, pair: Pair, seeds: Mapping[str, int], tests: int) -> float:
        """Smallest difference that is found with a power of `POWER`, at Holm's first level over this many tests."""
        terms, rng = self.terms(pair, seeds), generator("budget")
        level = 1 - (1 - self.confidence) / tests / 2
        squares = np.zeros(DRAWS)
        for variance, freedom in terms:
            squares += variance * quantile(freedom, level) ** 2 * rng.chisquare(freedom, DRAWS) / freedom
        error = math.sqrt(sum(variance for variance, _ in terms)) * rng.normal(size=DRAWS)
        return float(np.quantile(np.sqrt(squares) - error, POWER))


def degrees(seeds: int, borrows: bool) -> float:
    """Degrees of freedom of a variance between this many seeds, with those borrowed from other arms."""
    return seeds - 1 + most_borrowed(seeds) * borrows


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
    """The choice of seeds: most contrasts, then least squared margins, summed by the user's `weights`, or the worst."""

    precision: Precision
    hours: Mapping[str, float]  # of one more run of each arm, with its evaluations
    finished: Mapping[str, int] = field(default_factory=dict)  # runs by arm: they cost nothing and are kept
    needed: frozenset[str] = frozenset()  # arms that cannot be left out
    weights: Mapping[Pair, float] | None = None
    most: int = MOST  # most seeds of an arm, unless more are finished

    @property
    def pairs(self) -> list[Pair]:
        """The primary contrasts."""
        return list(self.precision.questions)

    @property
    def unit(self) -> float:
        """Divisor that brings the program's squared margins near 1: about the least of the widest contrast."""
        precision = self.precision
        terms = ((precision.paired(pair, self.most, True), precision.of_questions(pair)) for pair in self.pairs)
        return max(precision.square(*each) for each in terms) or 1.0  # 0 if no seeds or questions of a pilot differ

    @property
    def contrasted(self) -> set[str]:
        """Arms of the primary contrasts."""
        return {arm for pair in self.pairs for arm in pair}

    def options(self, arm: str) -> list[int]:
        """Numbers of seeds that an arm can have: 0 if it may be left out. In no contrast it gets what it must have."""
        finished = self.finished.get(arm, 0)
        if arm not in self.contrasted:
            return [max(finished, FEWEST) if arm in self.needed else finished]
        least = max(finished, FEWEST)
        numbers = list(range(least, max(self.most, least) + 1))
        return numbers if finished or arm in self.needed else [0, *numbers]

    def cost(self, seeds: Mapping[str, int]) -> float:
        """Hours that a choice still takes."""
        return sum(self.cost_of(arm, number) for arm, number in seeds.items())

    def cost_of(self, arm: str, seeds: int) -> float:
        """Hours that an arm's runs still take."""
        return max(seeds - self.finished.get(arm, 0), 0) * self.hours[arm]

    def kept(self, seeds: Mapping[str, int]) -> list[Pair]:
        """The contrasts whose arms are both in the study."""
        return [pair for pair in self.pairs if all(seeds[arm] for arm in pair)]

    def value(self, seeds: Mapping[str, int]) -> tuple[float, float]:
        """Objective of a choice: first the number of contrasts that are left out, then the squared margins."""
        kept_arms = {arm: number for arm, number in seeds.items() if number}
        squares = {pair: self.precision.margin(pair, kept_arms) ** 2 for pair in self.kept(seeds)}
        lost = float(len(self.pairs) - len(squares))
        if self.weights is not None:
            return lost, sum(self.weights[pair] * square for pair, square in squares.items())
        return lost, max(squares.values(), default=0.0) + TO_OTHERS * sum(squares.values()) / len(self.pairs)


class Chosen(NamedTuple):
    """Seeds of each arm, and whether the solver has shown that no choice is better."""

    seeds: dict[str, int]
    is_best: bool


def choose(problem: Problem, limit: float) -> Chosen:
    """Seeds of each arm within a limit of hours, 0 for none; `TooFewHours` if it does not pay for one contrast."""
    least = {arm: problem.options(arm)[0] for arm in problem.hours}
    smallest = [{**least, **{arm: max(least[arm], FEWEST) for arm in pair}} for pair in problem.pairs]
    hours = min(problem.cost(seeds) for seeds in smallest)
    if hours > limit + ROUNDING:
        raise TooFewHours(hours)
    possible = [seeds for seeds in smallest if problem.cost(seeds) <= limit + ROUNDING]
    equal = equal_seeds(problem, limit)
    start = improved(problem, min([*possible, *([equal] if equal else [])], key=problem.value), limit)
    found = program(problem, limit, start)
    if found is None:
        return Chosen(start, False)
    best = min(found.seeds, start, key=problem.value)
    (lost, value), (least_lost, least_value) = map(problem.value, (found.seeds, best))
    return Chosen(best, found.is_best and lost == least_lost and value <= least_value * (1 + TOLERANCE))


def equal_seeds(problem: Problem, limit: float) -> dict[str, int] | None:
    """The best choice with equal seeds of all contrasted arms, unless more are finished; None if all cost too much."""
    chosen = None
    for number in range(FEWEST, problem.most + 1):
        seeds = {
            arm: max(number, problem.finished.get(arm, 0)) if arm in problem.contrasted else problem.options(arm)[0]
            for arm in problem.hours
        }
        if problem.cost(seeds) <= limit + ROUNDING:
            chosen = seeds
    return chosen


def improved(problem: Problem, seeds: dict[str, int], limit: float) -> dict[str, int]:
    """`seeds` after exchanges that improve them: one arm gains a seed, another loses as many as the limit demands."""
    best, again = problem.value(seeds), True
    while again:
        again = False
        for gains, loses in product(seeds, (None, *seeds)):
            changed = {**seeds, gains: seeds[gains] + 1}
            while loses not in (None, gains) and problem.cost(changed) > limit + ROUNDING and changed[loses]:
                changed[loses] -= 1
            allowed = all(changed[arm] in problem.options(arm) for arm in (gains, loses) if arm)
            if allowed and problem.cost(changed) <= limit + ROUNDING and problem.value(changed) < best:
                seeds, best, again = changed, problem.value(changed), True
    return seeds


def program(problem: Problem, limit: float, start: Mapping[str, int]) -> Chosen | None:
    """The integer program's choice; None if time ran out before any. `start`, a known choice, rules out worse ones."""
    import pulp  # imported here: no other command needs it

    model = pulp.LpProblem("budget", pulp.LpMinimize)
    most = most_contrasts(problem, limit)
    has = arm_variables(model, problem, limit, useful_states(problem, limit, start, most))
    contrasts = [contrast_terms(model, problem, pair, has) for pair in problem.pairs]
    model += pulp.lpSum(share for share, _ in contrasts) >= most
    widest = model.add_variable("widest", lowBound=0)
    for _, square in contrasts:
        model += square <= widest
    weights = problem.weights or dict.fromkeys(problem.pairs, TO_OTHERS / len(problem.pairs))
    weighted = pulp.lpSum(weights[pair] * square for pair, (_, square) in zip(problem.pairs, contrasts, strict=True))
    model.setObjective(weighted + widest * (problem.weights is None))
    model.solve(solver(gapRel=GAP))
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return None
    seeds = {arm: max(of_arm, key=lambda state: of_arm[state].value()).seeds for arm, of_arm in has.items()}
    return Chosen(seeds, model.sol_status == pulp.LpSolutionOptimal)


def solver(**options: float) -> Any:
    """CBC, as it comes with pulp. `PULP_CBC_CMD` itself warns that pulp 4 leaves it out."""
    import pulp

    return pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, timeLimit=TIME_LIMIT, **options)


def most_contrasts(problem: Problem, limit: float) -> int:
    """How many contrasts the limit pays for, each arm with the fewest seeds that it can have."""
    import pulp

    model = pulp.LpProblem("contrasts", pulp.LpMaximize)
    has = {arm: model.add_variable(f"x{place}", cat=pulp.LpBinary) for place, arm in enumerate(problem.hours)}
    kept = {pair: model.add_variable(f"k{place}", upBound=1) for place, pair in enumerate(problem.pairs)}
    for pair, variable in kept.items():
        for arm in pair:
            model += variable <= has[arm]
    hours = []
    for arm, variable in has.items():
        options = problem.options(arm)
        hours.append(problem.cost_of(arm, next(filter(None, options), 0)) * variable)
        model += variable >= (0 not in options)
    model += pulp.lpSum(hours) <= limit + ROUNDING
    model.setObjective(pulp.lpSum(kept.values()))
    model.solve(solver())
    return round(pulp.value(model.objective) or 0)


class State(NamedTuple):
    """What an arm can have: a number of seeds, and whether it borrows a variance from other arms."""

    seeds: int
    borrows: bool


def useful_states(problem: Problem, limit: float, start: Mapping[str, int], contrasts: int) -> dict[str, list[State]]:
    """States that a best choice of so many `contrasts` can have: within the limit, no bound above that of `start`."""
    precision = problem.precision
    least = {arm: min(problem.options(arm)) for arm in problem.hours}
    lost, value = problem.value(start)
    bound = math.inf if lost or contrasts < len(problem.pairs) else value * (1 + 1e-9)
    may_borrow = (False, True) if precision.lends and len(problem.hours) >= LENDING else (False,)

    def is_worse(arm: str, state: State) -> bool:
        for pair in problem.pairs:
            if arm not in pair:
                continue
            other = pair[1 - pair.index(arm)]
            alone = precision.alone(arm, *state), precision.alone(other, max(problem.options(other)), True)
            smallest = min(precision.square(precision.paired(pair, *state)), precision.square(*alone))
            weight = 1.0 if problem.weights is None else problem.weights[pair]
            if weight * (smallest + precision.square(precision.of_questions(pair))) > bound:
                return True
        return False

    return {
        arm: [
            state
            for number in problem.options(arm)
            if problem.cost({**least, arm: number}) <= limit + ROUNDING
            for state in (State(number, borrows) for borrows in (may_borrow if number else (False,)))
            if not (number and is_worse(arm, state))
        ]
        for arm in problem.hours
    }


def arm_variables(
    model: Any, problem: Problem, limit: float, states: Mapping[str, list[State]]
) -> dict[str, dict[State, Any]]:
    """Binary variables by arm and state: one state an arm, within the limit, borrowing as in `Precision.borrowing`."""
    import pulp

    has = {
        arm: {
            state: model.add_variable(f"x{place}_{state.seeds}_{state.borrows:d}", cat=pulp.LpBinary)
            for state in states[arm]
        }
        for place, arm in enumerate(problem.hours)
    }
    for of_arm in has.values():
        model += pulp.lpSum(of_arm.values()) == 1
    every = [(state, variable) for of_arm in has.values() for state, variable in of_arm.items()]
    for number in sorted({state.seeds for state, _ in every if state.borrows}):
        arms_with_seeds = pulp.lpSum(variable for state, variable in every if state.seeds >= number)
        for of_arm in has.values():
            if State(number, True) in of_arm:
                model += LENDING * of_arm[State(number, True)] <= arms_with_seeds
    hours = [
        problem.cost_of(arm, state.seeds) * variable
        for arm, of_arm in has.items()
        for state, variable in of_arm.items()
    ]
    model += pulp.lpSum(hours) <= limit + ROUNDING
    return has


def contrast_terms(model: Any, problem: Problem, pair: Pair, has: Mapping[str, Mapping[State, Any]]) -> tuple[Any, Any]:
    """Whether a contrast is in the study, 1 or 0, and its squared margin over `Problem.unit`, as linear expressions.

    A share of the contrast is compared by the seeds that both arms have, `paired`, and the rest by all seeds, `alone`.
    As arms have one state each, one way for the whole contrast is best.
    """
    import pulp

    precision, name, unit = problem.precision, problem.pairs.index(pair), problem.unit
    options = [{state: variable for state, variable in has[arm].items() if state.seeds} for arm in pair]

    def shares(label: str, states: Iterable[State]) -> dict[State, Any]:
        return {
            state: model.add_variable(f"{label}{name}_{state.seeds}_{state.borrows:d}", lowBound=0) for state in states
        }

    paired = shares("p", sorted(options[0].keys() | options[1].keys()))
    alone = [shares(f"a{side}_", of_arm) for side, of_arm in enumerate(options)]
    not_paired = pulp.lpSum(alone[0].values())
    kept = pulp.lpSum(paired.values()) + not_paired
    for of_arm, of_side in zip(options, alone, strict=True):
        for state, share in of_side.items():
            model += share <= of_arm[state]
        model += pulp.lpSum(of_side.values()) == not_paired
        model += kept <= pulp.lpSum(of_arm.values())
    for state, share in paired.items():  # the arm with fewer seeds has this state, and the other one has its seeds
        model += share <= pulp.lpSum(of_arm[state] for of_arm in options if state in of_arm)
    for number in {state.seeds for state in paired}:
        share = pulp.lpSum(each for state, each in paired.items() if state.seeds >= number)
        for of_arm in options:
            model += share <= pulp.lpSum(variable for state, variable in of_arm.items() if state.seeds >= number)
    square = precision.square(precision.of_questions(pair)) / unit * kept
    costs = [(precision.paired(pair, *state), share) for state, share in paired.items()]
    for arm, of_side in zip(pair, alone, strict=True):
        costs += [(precision.alone(arm, *state), share) for state, share in of_side.items()]
    return kept, square + pulp.lpSum(precision.square(term) / unit * share for term, share in costs)
