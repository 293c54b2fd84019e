"""Mean similarities of an arm and their intervals."""

from time import perf_counter

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.similarity_by_arm import PARTS, by_layer_seed_and_step, similarity_by_arm
from reward_ablation.analysis.statistics.intervals import bootstrap_means, generator, percentile_interval


def by_step(values: np.ndarray, layers=("all", "layers.0"), definition: str = "alone") -> pd.DataFrame:
    """Rows of `similarity_by_step` with cosines (layers, seeds, steps), all of them `self`, in shuffled order."""
    rows = [
        (seed, step, layer, definition, "a", "b", values[depth, seed, step], values[depth, seed, step], 0.0, 0.0, 0.0)
        for depth, layer in enumerate(layers)
        for seed in range(values.shape[1])
        for step in range(values.shape[2])
    ]
    table = pd.DataFrame(rows, columns=["seed", "step", "layer", "definition", "component_a", "component_b", *PARTS])
    return table.assign(folding_error=1e-3 * (table["step"] + 1))


def row(table: pd.DataFrame, layer: str, part: str = "cosine") -> pd.Series:
    return table.set_index(["layer", "part"]).loc[(layer, part)]


def test_means_and_intervals_are_those_of_seeds_and_steps():
    values = np.random.default_rng(0).normal(0.2, 0.1, (2, 3, 20))
    table = similarity_by_arm(by_step(values), "one", 400, 0.9)
    means = bootstrap_means(values, 400, generator("one", "alone", "a", "b"))
    low, high = percentile_interval(means, 0.9)
    for depth, layer in enumerate(("all", "layers.0")):
        for part in ("cosine", "self"):
            found = row(table, layer, part)
            assert found["estimate"] == pytest.approx(values[depth].mean())
            assert (found["low"], found["high"]) == pytest.approx((low[depth], high[depth]))
        assert tuple(row(table, layer, "cross_prompt")[["estimate", "low", "high"]]) == (0, 0, 0)
    assert (table["seeds"] == 3).all()
    assert (table["steps"] == 20).all()
    assert list(table["layer"].unique()) == ["all", "layers.0"]


def test_steps_without_a_direction_are_left_out():
    values = np.array([[[0.1, np.nan, 0.3], [np.nan, np.nan, 0.5]]])
    found = row(similarity_by_arm(by_step(values, ["all"]), "one", 500, 0.95), "all")
    assert found["estimate"] == pytest.approx(0.3)  # (.1 + .3 + .5) / 3
    assert 0.1 <= found["low"] < found["high"] <= 0.5


def test_a_layer_without_any_direction_has_nulls_and_spoils_no_other():
    values = np.random.default_rng(1).normal(0, 0.1, (2, 2, 5))
    values[1] = np.nan
    table = similarity_by_arm(by_step(values), "one", 50, 0.95)
    assert row(table, "layers.0")[["estimate", "low", "high"]].isna().all()
    assert row(table, "all")[["estimate", "low", "high"]].notna().all()


def test_rows_in_any_order_give_the_same(tmp_path):
    values = np.random.default_rng(2).normal(0, 0.1, (2, 3, 6))
    rows = by_step(values)
    last = rows[rows["layer"] == "layers.0"].sample(frac=1, random_state=0)
    shuffled = pd.concat([rows[rows["layer"] == "all"].sample(frac=1, random_state=0), last])
    np.testing.assert_array_equal(by_layer_seed_and_step(shuffled)[0], values)
    pd.testing.assert_frame_equal(similarity_by_arm(shuffled, "x", 50, 0.9), similarity_by_arm(rows, "x", 50, 0.9))


def test_definitions_and_pairs_are_apart():
    values = np.random.default_rng(3).normal(0, 0.1, (2, 2, 5))
    both = pd.concat([by_step(values), by_step(values + 0.5, definition="share")])
    table = similarity_by_arm(both, "one", 50, 0.95)
    assert len(table) == 2 * 2 * len(PARTS)
    cosines = table[table["part"] == "cosine"].set_index(["definition", "layer"])["estimate"]
    assert list(cosines["share"] - cosines["alone"]) == pytest.approx([0.5, 0.5])


def test_no_row_gives_no_row():
    assert similarity_by_arm(by_step(np.zeros((0, 0, 0)), ()), "one", 50, 0.95).empty


def test_the_largest_error_of_folding_is_told_of_the_parts_that_have_it():
    table = similarity_by_arm(by_step(np.zeros((2, 2, 5))), "one", 50, 0.95)
    for layer in ("all", "layers.0"):
        errors = {part: row(table, layer, part)["folding_error"] for part in PARTS}
        assert errors == pytest.approx(dict.fromkeys(PARTS, 0.0) | {"cosine": 5e-3, "across_blocks": 5e-3})


def test_seed_spread_is_in_the_interval():
    values = np.array([0.0, 0.1, 0.2, 0.3])[None, :, None] + np.random.default_rng(4).normal(0, 0.01, (1, 4, 200))
    found = row(similarity_by_arm(by_step(values, ["all"]), "one", 500, 0.95), "all")
    assert found["high"] - found["low"] > 0.1


def test_a_long_study_takes_seconds():
    """One pair in 31 layers over 1,000 steps and 5 seeds."""
    rows = by_step(np.random.default_rng(5).normal(0, 0.1, (31, 5, 1000)), [f"layers.{n}" for n in range(31)])
    start = perf_counter()
    similarity_by_arm(rows, "one", 2000, 0.95)
    assert perf_counter() - start < 15
