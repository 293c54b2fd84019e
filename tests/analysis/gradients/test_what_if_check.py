"""The map over weights against training, beside rules that need no gradient."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.what_if import MeasuredStep
from reward_ablation.analysis.gradients.what_if_check import (
    agreement_table,
    check_table,
    observed_change,
    score_covariances,
)


def test_the_observed_change_is_the_last_tenth_less_the_first():
    scores = np.array([[0.1, 0.3, *[0.9] * 16, 0.6, 0.8], [0.3, 0.5, *[0.9] * 16, 0.6, 1.0]])
    found = observed_change(scores, 0.95)
    assert found.estimate[0] == pytest.approx((0.5 + 0.4) / 2)
    assert found.high[0] - found.estimate[0] == pytest.approx(12.7062 * 0.05, rel=1e-4)
    assert np.isnan(observed_change(scores[:1], 0.95).low).all()  # one seed has no interval


def test_steps_without_a_score_are_left_out_of_the_observed_change():
    scores = np.full((2, 40), 0.8)
    scores[0, -2:] = np.nan
    assert observed_change(scores, 0.95)[:3] == pytest.approx((0, 0, 0))
    scores[:, -4:] = np.nan
    assert np.isnan(observed_change(scores, 0.95).estimate).all()


def measured(scores) -> MeasuredStep:
    """A step of one batch: groups of two completions with scores of two components."""
    rollouts = pd.DataFrame(scores, columns=["score_a", "score_b"])
    rollouts = rollouts.assign(problem_id=np.arange(len(scores)) // 2, generation_step=1)
    return MeasuredStep(1, {"a": 1.0, "b": 0.0}, "group", "sum_then_normalize", [], rollouts)


def test_covariances_are_within_groups_and_per_deviation_of_the_total():
    """Two groups of two; a differs by 1 and by 0, b by -1 and by 1; levels of groups do not count."""
    step = measured([[1.0, 5.0], [0.0, 6.0], [9.0, 1.0], [9.0, 0.0]])
    found = score_covariances(step, np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 0.0]]))
    # variances (n - 1) of a: .5 and 0, mean .25; of b: .5 and .5; covariances: -.5 and 0
    assert found[0] == pytest.approx([0.5, -0.5])
    assert found[1] == pytest.approx([-0.25 / 0.5**0.5, 0.5**0.5])
    assert found[2] == pytest.approx(found[0])  # the size of the weights does not count
    assert np.isnan(found[3]).all()


def test_a_check_has_all_rules_beside_what_happened():
    steps = np.arange(1, 21)
    rewards = pd.concat(
        pd.DataFrame({"arm": "x", "seed": seed, "step": steps, "quantity": name, "mean": (1 + seed) * steps / 20})
        for seed in (0, 1)
        for name in ("a", "b")
    )
    predictions = {"x": {(0, 1): np.array([2.0, 0.0]), (1, 1): np.array([3.0, 0.0])}}
    covariances = {"x": {(0, 1): np.array([0.2, 0.1]), (1, 1): np.array([0.4, 0.1])}}
    weights = {"x": {"a": -2.0, "b": 0.0}}
    first, second = check_table(predictions, covariances, weights, rewards, ["a", "b"], 0.95).to_dict("records")
    assert (first["predicted"], first["covariance"]) == (2.5, pytest.approx(0.3))
    assert first["predicted_high"] - 2.5 == pytest.approx(12.7062 * 0.5, rel=1e-4)
    assert first["observed"] == pytest.approx(1.5 * 18 / 20)
    assert (first["rewarded"], second["rewarded"], first["seeds"]) == (-1, 0, 2)


def changes(rule_a, rule_b, observed, rewarded) -> pd.DataFrame:
    """Three changes an arm."""
    arms = [f"arm{place // 3}" for place in range(len(observed))]
    columns = {"arm": arms, "predicted": rule_a, "covariance": rule_b, "observed": observed, "rewarded": rewarded}
    return pd.DataFrame(columns)


def test_a_correlation_that_the_indicator_gives_is_no_merit_of_the_map():
    """Rewarded components rise and the others change at random: over all changes, any rule looks good."""
    rng = np.random.default_rng(0)
    rewarded = np.tile([1.0, 0, 0], 8)
    observed = rewarded + 0.1 * rng.normal(size=24)
    table = agreement_table(changes(rewarded + 0.1 * rng.normal(size=24), observed, observed, rewarded), 0.95)
    found = table.set_index(["cells", "rule"])
    assert found.loc[("all", "predicted"), "estimate"] > 0.5
    assert abs(found.loc[("unrewarded", "predicted"), "estimate"]) < 0.4
    assert found.loc[("unrewarded", "covariance"), "estimate"] == pytest.approx(1)
    assert found.loc[("unrewarded", "predicted"), "ahead_high"] < 0
    assert found.loc[("unrewarded", "covariance"), "ahead_low"] > 0
    assert np.isnan(found.loc[("unrewarded", "rewarded"), "estimate"])  # it says the same of all of them
    assert (found.loc["unrewarded", "changes"] == 16).all()


def test_intervals_leave_out_an_arm_at_a_time():
    rng = np.random.default_rng(1)
    check = changes(*rng.normal(size=(3, 12)), np.zeros(12))
    row = agreement_table(check, 0.95).set_index(["cells", "rule"]).loc[("unrewarded", "predicted")]
    left_out = [
        part["predicted"].corr(part["observed"], method="spearman")
        for part in (check[check["arm"] != arm] for arm in check["arm"].unique())
    ]
    error = np.sqrt(3 / 4 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    assert row["estimate"] == pytest.approx(check["predicted"].corr(check["observed"], method="spearman"))
    assert row["low"] == pytest.approx(max(-1, row["estimate"] - 3.182446 * error), rel=1e-5)
    assert row["arms"] == 4


def test_too_few_changes_have_no_correlation():
    table = agreement_table(changes([1.0, 2], [1.0, 2], [1.0, 2], [0.0, 0]), 0.95)
    assert table["estimate"].isna().all()
