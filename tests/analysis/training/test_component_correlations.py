import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums


def rollouts(rng, steps=30, rho=0.6, easy=0.0):
    """Groups of 4: normal scores of correlation rho within them; how easy a problem is moves both scores."""
    size = steps * 8 * 4
    a, b = rng.normal(size=(2, size))
    level = easy * np.repeat(rng.normal(size=steps * 8), 4)
    return pd.DataFrame(
        {
            "step": np.repeat(np.arange(steps), 32),
            "problem_id": np.tile(np.repeat(np.arange(8), 4).astype(str), steps),
            "score_a": a + level,
            "score_b": rho * a + (1 - rho**2) ** 0.5 * b + level,
            "score_c": 1.0,
        }
    )


def test_a_correlation_by_hand():
    # deviations from the group: a -1 1 | -1 1, b -1 1 | 1 -1 and once more -1 1: products 2 - 2 + 2, squares 6 and 6
    table = pd.DataFrame(
        {
            "step": [1, 1, 1, 1, 2, 2],
            "problem_id": ["p", "p", "q", "q", "p", "p"],
            "score_a": [0.0, 2, 5, 7, 0, 2],
            "score_b": [0.0, 2, 9, 7, 3, 5],
        }
    )
    found = component_correlations({0: pair_sums(table, ["a", "b"])}, "arm", 50, 0.95).iloc[0]
    assert found["estimate"] == pytest.approx(2 / 6)
    assert (found["seeds"], found["steps"]) == (1, 2)


def test_hard_problems_do_not_make_a_correlation():
    sums = {seed: pair_sums(rollouts(np.random.default_rng(seed), rho=0, easy=3), ["a", "b"]) for seed in (0, 1)}
    found = component_correlations(sums, "arm", 400, 0.95).iloc[0]
    assert found["low"] < 0 < found["high"]
    assert abs(found["estimate"]) < 0.05


def test_intervals_hold_the_truth_and_constants_have_no_correlation():
    sums = {seed: pair_sums(rollouts(np.random.default_rng(seed)), ["a", "b", "c"]) for seed in (0, 1)}
    found = component_correlations(sums, "arm", 400, 0.95).set_index(["component_a", "component_b"])
    assert found.loc[("a", "b"), "low"] < 0.6 < found.loc[("a", "b"), "high"]
    assert found.loc[("a", "b"), "high"] - found.loc[("a", "b"), "low"] < 0.1
    assert np.isnan(found.loc[("a", "c"), ["estimate", "low", "high"]].astype(float)).all()


def test_one_component_has_no_pairs():
    sums = {0: pair_sums(rollouts(np.random.default_rng(0)), ["a"])}
    assert component_correlations(sums, "arm", 10, 0.95).empty
