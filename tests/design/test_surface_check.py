"""The comparison of the surface with rules without a model."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.design.surface.check import LeftOut, check_table, nearest, predict_left_out, sum_of_single_effects
from reward_ablation.design.surface.model import Surface
from reward_ablation.design.surface.words import is_ahead, verdict

from .surfaces import FIFTEEN, hill, measured

CORNERS = np.eye(3)
MIDDLE = np.full((1, 3), 1 / 3)


def test_the_nearest_arms_are_averaged():
    arms = measured(np.array([0.2, 0.4, 0.9]), CORNERS)
    assert nearest(arms, np.array([0.5, 0.5, 0.0])) == pytest.approx(0.3)
    assert nearest(arms, np.array([0.0, 0.1, 0.9])) == 0.9


def test_a_component_counts_as_where_it_is_rewarded_alone():
    arms = measured(np.array([0.2, 0.4, 0.9]), CORNERS)
    assert sum_of_single_effects(arms, np.array([0.5, 0.25, 0.25])) == pytest.approx(0.425)
    without_the_third = arms.without(2)
    assert sum_of_single_effects(without_the_third, np.array([0.5, 0.5, 0.0])) == pytest.approx(0.3)
    assert np.isnan(sum_of_single_effects(without_the_third, np.array([0.5, 0.25, 0.25])))


@pytest.mark.parametrize(("higher", "picked", "regret"), [(True, "arm_2", 0.4), (False, "arm_1", 0.1)])
def test_errors_coverage_and_regret_by_hand(higher, picked, regret):
    arms = measured(np.array([0.2, 0.3, 0.5, 0.9]), np.concatenate([CORNERS, MIDDLE]))
    of = LeftOut(
        {
            "surface": np.array([0.3, 0.2, 0.9, 0.5]),
            "nearest": np.array([0.2, 0.3, 0.5, 0.5]),
            "alone": np.array([np.nan, np.nan, np.nan, 0.5]),
            "mean": np.array([0.5, 0.5, 0.5, 0.5]),
        },
        low=np.array([0.1, 0.25, 0.4, 0.4]),
        high=np.array([0.4, 0.4, 0.6, 0.6]),
    )
    check = check_table(arms, of, higher).set_index("rule")
    assert check.loc["surface", "error"] == pytest.approx(((0.01 + 0.01 + 0.16 + 0.16) / 4) ** 0.5)
    assert check.loc["nearest", "error"] == pytest.approx(0.2)
    assert check.loc["surface", "coverage"] == 0.75
    assert check.loc["surface", "picked"] == picked
    assert check.loc["surface", "regret"] == pytest.approx(regret)
    # An arm at random: 0.9 - 0.475, or 0.475 - 0.2.
    assert check.loc["mean", "regret"] == pytest.approx(0.425 if higher else 0.275)
    assert check.loc["alone", ["arms", "surface_error"]].tolist() == [1, pytest.approx(0.4)]
    assert check["ahead"].tolist() == [None, False, None, False]


def test_a_hill_is_predicted_better_than_by_any_rule_without_a_model():
    arms = measured(hill(FIFTEEN), FIFTEEN)
    check = check_table(arms, predict_left_out(Surface(arms), 0.95), higher_is_better=True)
    assert is_ahead(check)
    assert verdict(check) == "The surface is clearly better than the simple rules."
    assert check.set_index("rule").loc["alone", "arms"] == 12  # all but the corners


def test_noise_is_not_predicted_and_no_arm_is_suggested():
    rng = np.random.default_rng(3)
    arms = measured(0.5 + 0.02 * rng.normal(size=15), FIFTEEN)
    check = check_table(arms, predict_left_out(Surface(arms), 0.95), higher_is_better=True)
    assert not is_ahead(check)
    assert "no arm is suggested" in verdict(check)


def test_without_a_rule_to_compare_with_the_surface_is_not_ahead():
    check = pd.DataFrame({"rule": ["surface", "alone"], "ahead": [None, None]})
    assert not is_ahead(check)
    assert verdict(check) == "There are too few arms for a check: no arm is suggested."
