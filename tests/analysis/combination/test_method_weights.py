"""Weights of methods by step and over the whole run."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.combination.method_weights import MOST_STEPS, RANGE, method_weights


def log(weights: list[float], conflicts: float = np.nan) -> pd.DataFrame:
    """A run's log of one component."""
    steps = range(1, len(weights) + 1)
    columns = {
        "step": steps,
        "component": "a",
        "weight": weights,
        "conflicts": conflicts,
        "dead": 0.25,
        "lag_cosine": 0.5,
    }
    return pd.DataFrame(columns).assign(advantage_rms=0.5, lag_cosine=0.5)


def test_steps_have_the_range_of_the_seeds_and_the_run_an_interval():
    table = method_weights({0: log([1.0, 2.0]), 1: log([3.0, 4.0])}, "arm", 0.95)
    weights = table[["step", "weight", "weight_low", "weight_high", "interval"]]
    assert weights.iloc[:2].to_numpy().tolist() == [[1, 2.0, 1.0, 3.0, RANGE], [2, 3.0, 2.0, 4.0, RANGE]]
    whole = table.iloc[2]
    assert pd.isna(whole["step"])
    assert whole["interval"] == "seeds"
    # means over steps 1.5 and 3.5, standard error 1, Student's t of one degree of freedom 12.706
    assert [whole["weight"], whole["weight_low"], whole["weight_high"]] == pytest.approx(
        [2.5, -10.206, 15.206], abs=1e-3
    )
    assert table["dead"].tolist() == [0.25] * 3
    assert table["conflicts"].isna().all()


def test_one_seed_has_no_range():
    table = method_weights({0: log([1.0, 2.0])}, "arm", 0.95)
    assert table["weight"].tolist() == [1.0, 2.0, 1.5]
    assert table[["weight_low", "weight_high"]].isna().all(axis=None)


def test_a_seed_without_conflicts_leaves_those_of_the_other():
    table = method_weights({0: log([1.0]), 1: log([1.0], conflicts=0.5)}, "arm", 0.95)
    assert table["conflicts"].tolist() == [0.5, 0.5]


def test_many_steps_are_averaged():
    table = method_weights({0: log([*range(1, 2 * MOST_STEPS + 1)])}, "arm", 0.95)
    assert len(table) == MOST_STEPS + 1
    assert table["weight"].iloc[0] == 1.5
    assert table["step"].iloc[0] == 2
