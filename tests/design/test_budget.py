"""The integer program of `reward-ablation budget`, against all choices of small studies and calculations by hand."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from reward_ablation.design.budget import ROUNDING, TOLERANCE, Precision, Problem, TooFewHours, choose


def precision(variances, pairs, common=0.0, questions=0.0, lends=True):
    of_all = dict.fromkeys(variances, common)
    return Precision(variances, of_all, dict.fromkeys(pairs, questions), 500, 0.95, lends)


def study(number, **others):
    """Arms a0, a1, ..., each compared with a0, an hour a run."""
    arms = [f"a{place}" for place in range(number)]
    of = precision(dict.fromkeys(arms, 4e-4), [(arm, "a0") for arm in arms[1:]])
    return Problem(of, dict.fromkeys(arms, 1.0), **{"needed": frozenset({"a0"}), **others})


def test_margins_are_those_of_the_tables_estimator():
    of = precision({"a": 0.04, "b": 0.01, "c": 0.01}, [("b", "a")], questions=0.0001)
    # Three arms have two seeds: a degree of freedom is borrowed. None of a's five, which no other arm has.
    two, four = student.ppf(0.975, [2, 4])
    questions = 0.0001 * student.ppf(0.975, 499) ** 2
    margin = sqrt(0.01 / 2 * two**2 + 0.04 / 5 * four**2 + questions)
    assert of.margin(("b", "a"), {"a": 5, "b": 2, "c": 2}) == pytest.approx(margin)
    paired = sqrt((0.04 + 0.01) / 2 * two**2 + questions)
    assert of.margin(("b", "a"), {"a": 2, "b": 2, "c": 2}) == pytest.approx(paired)
    # The seeds that both arms have are paired where that is shorter.
    alike, independent = (precision({"a": 0.01, "b": 0.01}, [("b", "a")], common) for common in (1.0, 0.0))
    equal, one_more = {"a": 3, "b": 3}, {"a": 3, "b": 4}
    assert alike.margin(("b", "a"), one_more) == alike.margin(("b", "a"), equal) < 0.5
    assert independent.margin(("b", "a"), one_more) < independent.margin(("b", "a"), equal)


def test_power_of_the_smallest_effect_that_is_found():
    """With many seeds the test is a z-test: found with power .8 at 1.96 + .84 standard errors."""
    of = precision({"a": 1.0, "b": 1.0}, [("b", "a")], lends=False)
    effect = of.detectable(("b", "a"), {"a": 400, "b": 400}, tests=1)
    assert effect == pytest.approx((1.96 + 0.8416) * sqrt(2 / 400), rel=0.02)
    assert of.detectable(("b", "a"), {"a": 400, "b": 400}, tests=5) > effect


def small_study(rng) -> tuple[Problem, float]:
    """A random study of 2 to 4 arms with at most 5 seeds, and a limit of hours."""
    count = int(rng.integers(2, 5))
    arms = [f"a{place}" for place in range(count)]
    every = [(one, other) for place, one in enumerate(arms) for other in arms[:place]]
    pairs = [every[place] for place in sorted(rng.permutation(len(every))[: rng.integers(1, len(every) + 1)])]
    variances = dict(zip(arms, rng.uniform(1e-4, 2e-3, count) * np.exp(rng.normal(0, 0.7, count)), strict=True))
    of = precision(variances, pairs, float(rng.choice([0, 5e-4, 3e-3])), rng.uniform(0, 2e-4), bool(rng.integers(2)))
    hours = dict(zip(arms, rng.uniform(0.5, 3, count), strict=True))
    finished = {arm: int(rng.integers(0, 4)) for arm in arms if rng.random() < 0.3}
    needed = frozenset(arm for arm in arms if rng.random() < 0.4)
    weights = None if rng.random() < 0.6 else {pair: float(rng.uniform(0.5, 5)) for pair in pairs}
    less = float(rng.choice([0, 1]))  # hours: some limits leave a contrast unpaid
    problem = Problem(of, hours, finished, needed, weights, most=5)
    return problem, float(rng.uniform(0.3, 1.6) * 3 * sum(hours.values())) - less


@pytest.mark.parametrize("studies", [30, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.long])])
def test_the_choice_is_the_best_of_all_choices(studies):
    rng = np.random.default_rng(studies)
    left_out = 0
    for _ in range(studies):
        problem, limit = small_study(rng)
        numbers = product(*(problem.options(arm) for arm in problem.hours))
        every = [dict(zip(problem.hours, each, strict=True)) for each in numbers]
        paid = [seeds for seeds in every if problem.cost(seeds) <= limit + ROUNDING and problem.kept(seeds)]
        if not paid:
            with pytest.raises(TooFewHours):
                choose(problem, limit)
            continue
        chosen = choose(problem, limit)
        best = min(map(problem.value, paid))
        assert chosen.is_best
        assert problem.cost(chosen.seeds) <= limit + ROUNDING
        assert problem.value(chosen.seeds) == pytest.approx(best, rel=TOLERANCE)
        left_out += best[0] > 0
    assert left_out > studies / 30  # a contrast must be dropped in some of them


def test_a_choice_that_is_not_shown_to_be_the_best_says_so(monkeypatch):
    monkeypatch.setattr("reward_ablation.design.budget.TIME_LIMIT", 0)
    chosen = choose(study(8), 40.0)
    assert not chosen.is_best
    assert chosen.seeds["a0"] >= 2


def test_finished_runs_cost_nothing_and_are_kept():
    problem = study(4, finished={"a0": 2, "a2": 7})
    chosen = choose(problem, 8.0).seeds
    assert chosen["a2"] >= 7
    assert problem.cost(chosen) <= 8
    assert problem.cost({"a0": 2, "a1": 2, "a2": 7, "a3": 0}) == 2


def test_an_arm_in_no_contrast_gets_no_seeds_unless_it_is_needed():
    of = precision(dict.fromkeys("abcd", 1e-4), [("b", "a")])
    problem = Problem(of, dict.fromkeys("abcd", 1.0), finished={"c": 1}, needed=frozenset("abd"))
    chosen = choose(problem, 12.0).seeds
    assert (chosen["c"], chosen["d"]) == (1, 2)
    assert chosen["a"] + chosen["b"] == 10
    nothing_differs = precision(dict.fromkeys("ab", 0.0), [("b", "a")])
    assert min(choose(Problem(nothing_differs, dict.fromkeys("ab", 1.0)), 6.0).seeds.values()) >= 2


def test_the_least_that_is_needed_is_said():
    for problem, hours, least in ((study(4, needed=frozenset({"a0", "a1", "a2", "a3"})), 7.9, 8), (study(4), 3.9, 4)):
        with pytest.raises(TooFewHours) as error:
            choose(problem, hours)
        assert error.value.least == least
