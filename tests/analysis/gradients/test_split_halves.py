"""Cosines of expected gradients, against gradients whose expectation is known."""

from itertools import combinations

import numpy as np
import pytest

from reward_ablation.analysis.gradients.similarity_by_arm import (
    cosine_with_interval,
    cosines_of_steps,
    cross_prompt_products,
)
from reward_ablation.gram.similarity import inverse_norms


def sampled(rng, prompts=8, noise=1.0, truth=0.5, numbers=400):
    """Products of two gradients of cosine `truth` in expectation; both have the noise of each prompt."""
    a, b = np.zeros((2, numbers))
    a[0], b[0], b[1] = 1, truth, (1 - truth**2) ** 0.5
    shared = rng.normal(size=(prompts, numbers)) * noise
    # one row a prompt and gradient; the second one's noise is partly the first one's
    rows = np.concatenate([a + shared, b - shared])
    labels = np.tile(np.arange(prompts), 2)
    coefficients = np.repeat(np.eye(2), prompts, axis=1)
    total = cross_prompt_products(rows @ rows.T, coefficients, coefficients, labels)
    gram = coefficients @ rows @ rows.T @ coefficients.T
    return total[None], (gram * inverse_norms(gram))[0, 1]


def test_all_splits_in_halves_have_the_mean_of_the_pairs_of_prompts():
    """Four prompts, three ways of halving them, two assignments each."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3))  # gradients of each prompt
    rows = np.concatenate([a, b])
    coefficients = np.repeat(np.eye(2), 4, axis=1)
    labels = np.tile(np.arange(4), 2)
    total = cross_prompt_products(rows @ rows.T, coefficients, coefficients, labels)
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


def test_gradients_of_noise_have_no_cosine():
    rng = np.random.default_rng(2)
    known = []
    for _ in range(100):
        steps = []
        for rows in rng.normal(size=(8, 8, 300)):
            coefficients, labels = np.repeat(np.eye(2), 4, axis=1), np.tile(np.arange(4), 2)
            total = cross_prompt_products(rows @ rows.T, coefficients, coefficients, labels)
            steps.append(total[None])
        known.append(not np.isnan(cosines_of_steps(steps, [], ["a", "b"], 0.95)["estimate"].iloc[0]))
    assert np.mean(known) < 0.05


@pytest.mark.parametrize(("squares", "is_known"), [([2, 3, 6], False), ([3, 3.5, 4.5], True)])
def test_a_norm_is_above_the_margin_of_its_mean(squares, is_known):
    """Margins by Student's t: 5.2 of 3.7 and 1.9 of 3.7. A norm just above the margin of a sum would count as known."""
    steps = [np.full((1, 2, 2), float(value)) for value in squares]
    row = cosines_of_steps(steps, [], ["a", "b"], 0.95).iloc[0]
    assert (not np.isnan(row["estimate"])) == is_known
    assert np.isnan(cosine_with_interval(np.ones((1, 2, 2)), np.ones((1, 2, 2, 2)), 0.95)).all()  # two steps: too few
