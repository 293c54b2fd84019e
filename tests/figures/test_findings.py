"""Lines on what a figure shows, by hand."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.figures.findings import clearest, lowest_and_highest, rises, signs


def rows(*estimates: tuple[float, float, float]) -> pd.DataFrame:
    """Estimates with low and high of the arms a, b, c …, and of the base model."""
    numbers = [(0.9, 0.9, 0.9), *estimates]
    return pd.DataFrame(numbers, columns=["estimate", "low", "high"], index=["base", *"abcdefg"[: len(estimates)]])


@pytest.mark.parametrize(
    ("estimates", "found"),
    [
        ([(0.6, 0.5, 0.7), (0.2, 0.1, 0.3)], "b (0.200 [0.100, 0.300]) is lowest, a (0.600 [0.500, 0.700]) highest"),
        ([(0.6, 0.3, 0.7), (0.2, 0.1, 0.3)], "all intervals overlap, from b (0.200 [0.100, 0.300]) to a (0.600 [0.300"),
        # The intervals of the lowest and the highest overlap, but b and c are apart.
        ([(0.6, 0.2, 0.7), (0.2, 0.1, 0.3), (0.5, 0.4, 0.6)], "from b (0.200 [0.100, 0.300]) to a (0.600 [0.200, 0.7"),
        ([(0.0, 0.0, 0.1), (0.0, 0.0, 0.2)], "all arms have 0.000"),
        ([(0.6, 0.5, 0.7)], "a (0.600 [0.500, 0.700])"),
        ([(np.nan, np.nan, np.nan)], ""),
    ],
)
def test_the_lowest_and_the_highest_arm_are_told_apart_where_intervals_are(estimates, found):
    assert lowest_and_highest(rows(*estimates), SHARE).startswith(found)
    assert bool(found) == bool(lowest_and_highest(rows(*estimates), SHARE))


def test_the_clearest_effect_has_the_smallest_corrected_p():
    effects = rows((0.5, 0.1, 0.9), (-0.2, -0.3, -0.1), (np.nan, np.nan, np.nan)).drop(index="base")
    effects["p_holm"] = [0.05, 0.01, np.nan]
    assert clearest(effects, SHARE, 0.05) == "1 of 3 significant; clearest: b: −0.200 [−0.300, −0.100]"
    assert clearest(effects.iloc[[1]], SHARE, 0.05) == "b: −0.200 [−0.300, −0.100]"
    assert clearest(effects.iloc[[2]], SHARE, 0.05) == ""


def test_signs_count_intervals_that_leave_out_0():
    table = pd.DataFrame({"low": [0.1, -0.1, -0.3, np.nan], "high": [0.3, 0.2, -0.1, np.nan]})
    names = pd.Series(["x", "x", "y", "y"])
    assert signs(table, names) == "intervals above 0: x in 1 of 2 arms; intervals below 0: y in 1 of 1 arms"
    assert signs(table.iloc[[1]], names) == "no interval leaves out 0"
    assert signs(table.iloc[[3]], names) == ""


def test_rises_compare_the_ends_of_each_run():
    steps, seeds = np.tile(np.arange(1, 22), 2), np.repeat([0, 1], 21)
    table = pd.DataFrame({"arm": "a", "seed": seeds, "step": steps, "quantity": "x", "mean": steps * (1.0 - 2 * seeds)})
    same = {"a": "a"}
    assert rises(table, ["x", "y"], same) == "higher in the last tenth of the steps than in the first: x in 1 of 2 runs"
    assert rises(table[table["step"] == 1], ["x"], same) == ""


def test_runs_that_two_arms_share_rise_once():
    rows = [
        (arm, seed, step, "x", 0.1 * step) for arm in "abc" for seed in (0, 1)[: 1 + (arm != "a")] for step in range(9)
    ]
    table = pd.DataFrame(rows, columns=["arm", "seed", "step", "quantity", "mean"]).astype({"arm": "category"})
    assert rises(table, ["x"], {"a": "a", "b": "a", "c": "c"}).endswith("x in 4 of 4 runs")
