"""Power by simulated statistics: decisions equal those of the tables' estimators."""

import sys
from pathlib import Path

import numpy as np
import pytest

from reward_ablation.analysis.statistics.estimates import Distribution, _scores, holm, intervals, p_values
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.design.power import SEEDS, TARGET, Analysis, Design, Plan, Variance, shifts
from reward_ablation.design.variances import Stated, components_from_stated

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARMS = ["a", "b", "c", "d"]
PAIRS = [("b", "a"), ("c", "a"), ("d", "a")]
DESIGN = Design(3, 200, 4)


@pytest.fixture(scope="module")
def plan():
    values = Stated(seed_sd=0.03, question_sd=0.1)
    return Plan(components_from_stated(values, SHARE, 200, 4, False, ARMS, PAIRS), Analysis(PAIRS, 0.95, True))


@pytest.fixture(scope="module")
def simulated(plan):
    return plan.simulated(DESIGN, Variance.ESTIMATED)


def with_normal_shape(of: Distribution, studies: int, estimate: np.ndarray) -> Distribution:
    """The first studies of a distribution, with the deviations of a bootstrap whose shape is normal."""
    deviations = np.repeat(_scores(400)[:, None], studies, axis=1)
    spread = type(of.spread)(*(part[:studies] for part in of.spread))
    ends = (end[:studies] for end in (of.low, of.high))
    return Distribution(estimate[:studies], spread, deviations, *ends, of.seeds, of.questions)


def test_what_is_found_is_what_holm_finds_with_the_p_values_of_the_tables(simulated):
    studies, effects = 300, [0.05, 0.12, 0.3]
    p = [
        p_values(with_normal_shape(of, studies, errors + effect))
        for of, errors, effect in zip(simulated.distributions, simulated.errors, effects, strict=True)
    ]
    expected = np.apply_along_axis(holm, 0, np.array(p)) < 0.05
    assert (simulated.found(effects)[:, :studies] == expected).all()
    assert expected.any()
    assert simulated.found([0.0, 0.0, 0.0]).any(axis=0).mean() < 0.06  # without effects


def test_lengths_are_those_of_the_intervals_of_the_tables(simulated):
    of = with_normal_shape(simulated.distributions[1], 300, simulated.errors[1] + 0.9)
    low, high = intervals(of, 0.95)
    assert simulated.lengths(1, 0.9)[:300] == pytest.approx(high - low, rel=1e-4)
    assert high.max() == 1  # some intervals end where the range does


def test_the_smallest_effect_that_is_found_has_the_power_it_promises(plan, simulated):
    assert plan.power(DESIGN, PAIRS[0], simulated.detectable(0)) == pytest.approx(TARGET, abs=0.02)


def test_seeds_questions_and_samples_narrow_intervals(plan):
    def length(design: Design) -> float:
        return float(plan.row(design, PAIRS[0], 0.1)["length"])

    start = length(DESIGN)
    assert length(Design(5, 200, 4)) < 0.75 * start
    assert length(Design(3, 800, 4)) < start
    assert length(Design(3, 200, 16)) < start


def test_the_fewest_seeds_have_the_power_and_one_fewer_has_not(plan):
    fewest = plan.fewest_seeds(DESIGN, PAIRS[0], 0.1, Variance.ESTIMATED)
    fewer = SEEDS[SEEDS.index(fewest) - 1]
    assert plan.power(DESIGN._replace(seeds=fewest), PAIRS[0], 0.1) >= TARGET
    assert plan.power(DESIGN._replace(seeds=fewer), PAIRS[0], 0.1) < TARGET
    assert plan.fewest_seeds(DESIGN, PAIRS[0], 0.001, Variance.ESTIMATED) is None


def test_an_effect_of_an_arm_reaches_all_its_contrasts():
    pairs = [("b", "a"), ("c", "b"), ("c", "a")]
    assert shifts(pairs, "b", 0.1).tolist() == pytest.approx([0.1, -0.1, 0.0])


@pytest.mark.slow
def test_power_is_that_of_studies_which_are_simulated_in_full(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delitem(sys.modules, "power", raising=False)
    import power as benchmark

    components = benchmark.mean_components(benchmark.POWER)
    row = benchmark.compare(benchmark.POWER, Design(3, 200, 4), components, 600)
    # 600 studies have a standard error of 2 points
    assert row["power_foreseen"] == pytest.approx(row["power"], abs=0.06)
    assert row["length_foreseen"] == pytest.approx(row["length"], rel=0.06)
