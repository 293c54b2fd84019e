"""Similarities of an arm over its steps and seeds, and their intervals."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.similarity_by_arm import (
    COSINE_AND_PARTS,
    corrected_by_arm,
    cosine_with_interval,
    cosines_of_steps,
    cross_prompt_products,
    similarity_by_arm,
)
from reward_ablation.gram.similarity import inverse_norms


def by_step(values: np.ndarray, layers=("all", "layers.0")) -> pd.DataFrame:
    """Rows of `similarity_by_step` with cosines (layers, seeds, steps), all of them `self`."""
    rows = [
        (seed, step, layer, "alone", "a", "b", values[depth, seed, step], values[depth, seed, step], 0.0, 0.0, 0.0)
        for depth, layer in enumerate(layers)
        for seed in range(values.shape[1])
        for step in range(values.shape[2])
    ]
    labels = ["seed", "step", "layer", "definition", "component_a", "component_b"]
    table = pd.DataFrame(rows, columns=[*labels, *COSINE_AND_PARTS])
    norms = table["cosine"].notna().map({True: 1.0, False: np.nan})
    return table.assign(norm_a=norms, norm_b=norms, folding_error=1e-3 * (table["step"] + 1))


def row(table: pd.DataFrame, layer: str, part: str = "cosine") -> pd.Series:
    return table.set_index(["layer", "part"]).loc[(layer, part)]


def test_means_and_intervals_are_those_of_seeds():
    values = np.random.default_rng(0).normal(0.2, 0.1, (3, 3, 20))
    values[2] = np.nan  # a layer without any direction
    rows = by_step(values, ("all", "layers.0", "layers.1"))
    table = similarity_by_arm(rows, "one", 0.9)
    assert row(table, "layers.1")[["estimate", "low", "high"]].isna().all()
    by_seed = values.mean(axis=2)
    margin = 2.919986 * by_seed.std(axis=1, ddof=1) / 3**0.5  # Student's t at .95, 2 degrees of freedom
    for depth, layer in enumerate(("all", "layers.0")):
        for part in ("cosine", "self"):
            found = row(table, layer, part)
            assert found["estimate"] == pytest.approx(by_seed[depth].mean())
            assert found["high"] - found["estimate"] == pytest.approx(margin[depth])
        assert tuple(row(table, layer, "cross_prompt")[["estimate", "low", "high"]]) == (0, 0, 0)
    known = table[table["layer"] != "layers.1"]
    assert known[["seeds", "steps", "interval"]].drop_duplicates().to_numpy().tolist() == [[3, 20, "seeds"]]
    both = similarity_by_arm(pd.concat([rows, rows.assign(definition="share", cosine=rows["cosine"] + 0.5)]), "x", 0.9)
    cosines = both.query("part == 'cosine' and layer == 'all'").set_index("definition")["estimate"]
    assert cosines["share"] - cosines["alone"] == pytest.approx(0.5)


def test_the_cosine_is_a_ratio_of_means():
    """Steps of norms 1, 1 and 3, 1: (.5 * 1 + -.1 * 3) / 2 over the root of (1 + 9) / 2 times 1."""
    rows = by_step(np.array([[[0.5, -0.1], [0.5, -0.1]]]), ["all"])
    rows["norm_a"] = rows["step"].map({0: 1.0, 1: 3.0})
    rows["self"], rows["cross_prompt"] = rows["cosine"] - 0.1, 0.1
    table = similarity_by_arm(rows, "one", 0.95)
    assert row(table, "all")["estimate"] == pytest.approx(0.1 / 5**0.5)
    assert row(table, "all", "cross_prompt")["estimate"] == pytest.approx(0.1 * 2 / 5**0.5)
    parts = table.set_index("part")["estimate"]
    assert parts["cosine"] == pytest.approx(parts.drop("cosine").sum())


def test_a_step_whose_gradient_is_zero_has_inner_products_of_zero():
    """A cosine of .6 at one step, and no cosine at the other step, where the first gradient is zero."""
    rows = by_step(np.array([[[0.6, np.nan], [0.6, np.nan]]]), ["all"])
    rows["norm_a"], rows["norm_b"] = rows["step"].map({0: 1.0, 1: 0.0}), 1.0
    assert row(similarity_by_arm(rows, "one", 0.95), "all")["estimate"] == pytest.approx(0.3 / 0.5**0.5)


def halves(estimates) -> pd.DataFrame:
    """The `cosines_of_steps` of all seeds."""
    labels = {"layer": "all", "component_a": "a", "component_b": "b"}
    return pd.DataFrame([{**labels, "estimate": estimate, "low": -0.2, "high": 0.5} for estimate in estimates])


def test_split_halves_are_averaged_over_the_seeds_whose_norms_are_resolved():
    found = corrected_by_arm(halves([0.1, np.nan, 0.3]), 1, "one", 0.95).iloc[0]
    assert found["estimate"] == pytest.approx(0.2)
    assert (found["low"], found["high"]) == (-1, 1)  # 12.7 times .1
    assert (found["seeds"], found["steps"], found["interval"]) == (2, 1, "seeds")
    single = corrected_by_arm(halves([np.nan, 0.3]), 1, "one", 0.95).iloc[0]
    assert (single["estimate"], single["low"], single["high"]) == (0.3, -0.2, 0.5)
    assert single["interval"] == "steps"
    assert np.isnan(corrected_by_arm(halves([np.nan, np.nan]), 1, "one", 0.95).iloc[0]["estimate"])


def test_the_largest_error_of_folding_is_told_of_the_parts_that_have_it():
    table = similarity_by_arm(by_step(np.zeros((2, 2, 5))), "one", 0.95)
    for layer in ("all", "layers.0"):
        errors = {part: row(table, layer, part)["folding_error"] for part in COSINE_AND_PARTS}
        assert errors == pytest.approx(dict.fromkeys(COSINE_AND_PARTS, 0.0) | {"cosine": 5e-3, "across_blocks": 5e-3})


def sampled(rng, prompts=8, noise=1.0, truth=0.5, numbers=400):
    """Products of two gradients of cosine `truth` in expectation; both have the noise of each prompt."""
    a, b = np.zeros((2, numbers))
    a[0], b[0], b[1] = 1, truth, (1 - truth**2) ** 0.5
    shared = rng.normal(size=(prompts, numbers)) * noise
    # one row a prompt and gradient; the second one's noise is partly the first one's
    rows = np.concatenate([a + shared, b - shared])
    labels = np.tile(np.arange(prompts), 2)
    coefficients = np.repeat(np.eye(2), prompts, axis=1)
    total = cross_prompt_products(rows @ rows.T, coefficients, labels)
    gram = coefficients @ rows @ rows.T @ coefficients.T
    return total[None], (gram * inverse_norms(gram))[0, 1]


def test_all_splits_in_halves_have_the_mean_of_the_pairs_of_prompts():
    """Four prompts, three ways of halving them, two assignments each."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3))  # gradients of each prompt
    rows = np.concatenate([a, b])
    coefficients = np.repeat(np.eye(2), 4, axis=1)
    labels = np.tile(np.arange(4), 2)
    total = cross_prompt_products(rows @ rows.T, coefficients, labels)
    halves = []
    for first in combinations(range(4), 2):
        second = [prompt for prompt in range(4) if prompt not in first]
        halves.append(a[list(first)].sum(axis=0) @ b[second].sum(axis=0))
    # a pair of prompts is in different halves in 4 of 6 splits, half of them with a's prompt in the first
    assert np.mean(halves) == pytest.approx(total[0, 1] * 2 / 6)


def test_noise_does_not_count():
    """Shared noise makes the plain cosine negative; the corrected one is near the truth."""
    rng = np.random.default_rng(0)
    steps, plain = zip(*(sampled(rng, noise=0.15) for _ in range(60)), strict=True)
    found = cosines_of_steps([*steps], [], ["a", "b"], 0.95)
    assert np.mean(plain) < -0.2
    row = found.iloc[0]
    assert row["layer"] == "all"
    assert row["estimate"] == pytest.approx(0.5, abs=0.1)
    assert row["low"] < 0.5 < row["high"]


@pytest.mark.parametrize(("squares", "is_known"), [([2, 3, 6], False), ([3, 3.5, 4.5], True)])
def test_a_norm_is_above_the_margin_of_its_mean(squares, is_known):
    """Margins by Student's t: 5.2 of 3.7 and 1.9 of 3.7. A norm just above the margin of a sum would count as known."""
    steps = [np.full((1, 2, 2), float(value)) for value in squares]
    row = cosines_of_steps(steps, [], ["a", "b"], 0.95).iloc[0]
    assert (not np.isnan(row["estimate"])) == is_known
    assert np.isnan(cosine_with_interval(np.ones((1, 2, 2)), np.ones((1, 2, 2, 2)), 0.95)).all()  # two steps: too few
