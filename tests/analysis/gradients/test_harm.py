"""Which steps are called harmful, in simulated steps whose truth is known."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.error_rates import FALSE_DISCOVERIES
from reward_ablation.analysis.gradients.harm import Effect, harm_by_arm, harm_by_step, jackknife_test


def simulated(rng, truth: float = 0.0, kind: str = "noise", prompts: int = 8, numbers: int = 50) -> Effect:
    """Effect of a step on a component from gradients of prompts; `truth` is the product of their expectations.

    The noise of a prompt's two gradients is negatively correlated: a plain inner product would be far below 0.
    """
    own = rng.normal(size=(2, prompts, numbers))
    if kind == "heavy tails":
        own *= rng.choice([0.1, 1.0, 4.0], size=(prompts, 1), p=[0.5, 0.35, 0.15])
    if kind == "few directions":
        own[..., 3:] *= 0.05
    shared = rng.normal(size=(prompts, numbers))
    score, step = own[0] + shared, own[1] - shared
    if kind == "orthogonal":
        score[:, 0] += 10
        step[:, 1] += 10
    score[:, 2] += np.sqrt(abs(truth))
    step[:, 2] += np.sign(truth) * np.sqrt(abs(truth))
    products = score @ step.T
    np.fill_diagonal(products, 0.0)
    pairs = 2.0 * (prompts - 1)
    removed = (products.sum(axis=0) + products.sum(axis=1))[:, None]
    return jackknife_test(np.array([products.sum()]), removed, prompts * (prompts - 1.0), np.full(prompts, pairs))


@pytest.mark.parametrize("kind", ["noise", "heavy tails", "few directions", "orthogonal"])
@pytest.mark.parametrize("prompts", [4, 8, 16])
def test_steps_without_effect_are_hardly_ever_called_harmful(kind, prompts):
    rng = np.random.default_rng(prompts)
    p = np.array([simulated(rng, kind=kind, prompts=prompts).p[0] for _ in range(800)])
    assert np.mean(p < 0.05) < 0.07
    assert np.mean(p < 0.01) < 0.02


@pytest.mark.parametrize("kind", ["noise", "heavy tails", "orthogonal"])
@pytest.mark.parametrize("harmful", [0, 10])
def test_the_false_discovery_rate_holds(kind, harmful):
    """Runs of 40 steps, some of them harmful: mean share of harmless steps among those called harmful."""
    rng = np.random.default_rng(harmful)
    false, power = [], []
    for _ in range(60):
        found = {step: simulated(rng, -30.0 if step < harmful else 0.0, kind) for step in range(40)}
        called = harm_by_step(found, ["a"])["harmful"].to_numpy()
        false.append(called[harmful:].sum() / max(called.sum(), 1))
        power.append(called[:harmful].mean() if harmful else np.nan)
    assert np.mean(false) < FALSE_DISCOVERIES + 2 * np.std(false) / np.sqrt(len(false)) + 1e-9
    if harmful and kind == "noise":
        assert np.mean(power) > 0.5


def test_helpful_steps_are_not_harmful():
    rng = np.random.default_rng(0)
    assert min(simulated(rng, 20.0).p[0] for _ in range(200)) > 0.05


def test_the_effect_is_unbiased():
    rng = np.random.default_rng(0)
    effects = [simulated(rng, -4.0).effect[0] for _ in range(4000)]
    assert np.mean(effects) == pytest.approx(-4.0, abs=4 * np.std(effects) / 4000**0.5)


def test_the_error_is_that_of_leaving_out_a_prompt():
    """Three prompts: the mean over pairs is (1 + 2 + 3) / 3 per direction. Without one prompt, one pair is left."""
    pairs = np.array([[0, 1.0, 2], [1, 0, 3], [2, 3, 0]])
    removed = 2 * pairs.sum(axis=1)[:, None]
    found = jackknife_test(np.array([pairs.sum()]), removed, 6.0, np.full(3, 4.0))
    assert found.effect[0] == 2
    assert found.error[0] == pytest.approx(np.sqrt(2 / 3 * 2))  # of 3, 2 and 1
    assert found.p[0] > 0.5


def test_what_is_not_known_is_not_harmful():
    few = jackknife_test(np.array([-1.0]), np.full((2, 1), -1.0), 2.0, np.array([2.0, 2.0]))
    assert few.p[0] == 1
    assert np.isnan(few.effect[0])
    no_advantage = jackknife_test(np.zeros(1), np.zeros((4, 1)), 12.0, np.full(4, 6.0))
    assert no_advantage.p[0] == 1


def rows(harmful: np.ndarray) -> pd.DataFrame:
    """Rows of `harm_by_step` from (seeds, steps) flags."""
    places = [(seed, step, "a", -1.0, flag) for (seed, step), flag in np.ndenumerate(harmful)]
    return pd.DataFrame(places, columns=["seed", "step", "component", "effect", "harmful"])


def test_shares_have_an_interval_over_seeds():
    flags = np.zeros((2, 10), dtype=bool)
    flags[0, :2], flags[1, :4] = True, True
    row = harm_by_arm(rows(flags), "x", ["a"], 0.95).iloc[0]
    assert row["estimate"] == pytest.approx(0.3)
    assert (row["low"], row["high"]) == (0, 1)  # .3 plus and minus 12.7 times .1, within the range of a share
    assert row["interval"] == "seeds"


def test_equal_shares_are_no_certainty():
    """None of 20 steps: Clopper and Pearson's upper end is 1 - .025^(1/20)."""
    row = harm_by_arm(rows(np.zeros((2, 10), dtype=bool)), "x", ["a", "b"], 0.95).iloc[0]
    assert (row["estimate"], row["low"]) == (0, 0)
    assert row["high"] == pytest.approx(1 - 0.025 ** (1 / 20))
    assert row["interval"] == "steps"
