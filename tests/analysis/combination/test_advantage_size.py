"""How large the advantages of arms are."""

import math

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.combination.advantage_size import advantage_size, mean_squares

#: Student's t of one degree of freedom at 97.5 %.
T_OF_TWO_SEEDS = 12.706204736


def squares(*values: float) -> pd.Series:
    return pd.Series(values, index=pd.RangeIndex(1, len(values) + 1))


def test_squares_are_means_over_all_completions_of_a_step():
    rollouts = pd.DataFrame({"seed": [7, 7, 7, 7, 0], "step": [1, 1, 2, 2, 2], "advantage": [1.0, -1.0, 3.0, 0.0, 2.0]})
    found = {seed: of_seed.to_dict() for seed, of_seed in mean_squares(rollouts).items()}
    assert found == {7: {1: 1.0, 2: 4.5}, 0: {2: 4.0}}


def test_a_size_is_the_mean_of_the_seeds_with_an_interval_over_them():
    # sizes 1 and 3 in the arm, 1 and 1 in the baseline
    table = advantage_size(
        {"base": {0: squares(1, 1), 1: squares(1, 1)}, "arm": {0: squares(1, 1), 1: squares(9, 9)}}, "base", 0.95
    ).set_index("arm")
    arm = table.loc["arm"]
    assert arm["estimate"] == pytest.approx(2.0)
    assert arm["high"] == pytest.approx(2 + T_OF_TWO_SEEDS)  # the standard error is 1
    assert arm["low"] == 0.0  # a size is not below 0
    assert arm["ratio"] == pytest.approx(math.sqrt(3))  # geometric mean of 1 and 3
    assert math.log(arm["ratio_high"]) == pytest.approx(math.log(3) / 2 * (1 + T_OF_TWO_SEEDS))
    assert (arm["seeds"], arm["steps"], arm["interval"]) == (2, 2, "seeds")
    assert table.loc["base", ["ratio", "ratio_low", "ratio_high"]].tolist() == [1.0, 1.0, 1.0]


def test_one_seed_has_an_interval_over_its_steps():
    one = advantage_size({"arm": {0: squares(*[1.0, 1.2] * 50)}}, "arm", 0.95).loc[0]
    assert one["interval"] == "steps"
    assert one["estimate"] == pytest.approx(math.sqrt(1.1))
    assert one["low"] < one["estimate"] < one["high"]
    assert one["high"] - one["low"] < 0.05


def test_an_arm_without_advantages_has_a_size_and_no_ratio():
    table = advantage_size({"base": {0: squares(1, 1)}, "arm": {0: squares(0, 0)}}, "base", 0.95).set_index("arm")
    assert table.loc["arm", "estimate"] == 0.0
    assert np.isnan(table.loc["arm", "ratio"])
