import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from reward_ablation.analysis.gradients.predictors import predicted_changes, predictors, slopes_after, window_of
from reward_ablation.analysis.statistics.intervals import block_length, block_shares


def test_slopes_are_of_the_steps_after():
    # after step 0 come 1 2 3: slope 1; after step 1 come 2 3 9: (9 - 2) / 2
    slopes = slopes_after(np.array([100.0, 1, 2, 3, 9]), 3)
    assert list(slopes[:2]) == pytest.approx([1, 3.5])
    assert np.isnan(slopes[2:]).all()
    assert np.isnan(slopes_after(np.arange(3.0), 3)).all()


def test_the_window_is_a_tenth_and_no_less_than_four():
    assert [window_of(steps) for steps in (10, 40, 200)] == [4, 4, 20]


def test_blocks_are_neighbouring_steps_and_every_step_is_as_likely():
    shares = block_shares(4000, 10, 5, np.random.default_rng(0))
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares.mean(axis=0) == pytest.approx(0.1, abs=0.005)
    assert ((shares > 0).sum(axis=1) >= 5).all()
    together = np.corrcoef(shares[:, 0], shares[:, 1])[0, 1]
    assert together > 0.5  # neighbours are drawn together
    assert [block_length(steps) for steps in (1, 8, 27, 1000)] == [1, 2, 3, 10]
    assert block_length(8, 5) == 5


def wandering(rng, seeds, steps):
    return np.cumsum(rng.normal(size=(seeds, steps)), axis=1) * 0.1


def test_the_estimate_is_the_mean_rank_correlation():
    rng = np.random.default_rng(0)
    predictor, scores = rng.normal(size=(2, 30)), wandering(rng, 2, 30)
    slopes = slopes_after(scores, 4)
    by_hand = [spearmanr(predictor[s, :-4], slopes[s, :-4]).statistic for s in range(2)]
    estimate, low, high = predicted_changes(predictor, scores, 4, ("a",), 300, 0.95)
    assert estimate == pytest.approx(np.mean(by_hand))
    assert low < estimate < high


def test_a_predictor_that_knows_is_told_from_one_that_does_not():
    rng = np.random.default_rng(1)
    pace = np.sin(np.arange(80) / 4)  # what the score does next
    scores = np.cumsum(0.05 * pace) + 0.005 * rng.normal(size=(2, 80))
    knows = np.roll(pace, -4) + 0.1 * rng.normal(size=(2, 80))
    _, low, _ = predicted_changes(knows, scores, 8, ("a",), 300, 0.95)
    assert low > 0.3
    _, low, high = predicted_changes(rng.normal(size=(2, 80)), scores, 8, ("a",), 300, 0.95)
    assert low < 0 < high


@pytest.mark.parametrize(
    ("predictor", "steps"), [(np.ones((1, 40)), 40), (np.full((1, 40), np.nan), 40), (np.arange(10.0)[None], 10)]
)
def test_nothing_is_said_where_nothing_varies_or_steps_are_few(predictor, steps):
    scores = wandering(np.random.default_rng(0), 1, steps)
    assert np.isnan(predicted_changes(predictor, scores, window_of(steps), ("a",), 50, 0.95)).all()


def test_steps_that_were_not_measured_are_left_out():
    rng = np.random.default_rng(2)
    predictor, scores = rng.normal(size=(1, 60)), wandering(rng, 1, 60)
    predictor[:, np.arange(60) % 3 > 0] = np.nan
    slopes = slopes_after(scores, 6)
    known = np.arange(0, 54, 3)
    estimate, *_ = predicted_changes(predictor, scores, 6, ("a",), 50, 0.95)
    assert estimate == pytest.approx(spearmanr(predictor[0, known], slopes[0, known]).statistic)


def test_the_table_has_arms_in_order_and_the_signal_of_all_components():
    rng = np.random.default_rng(3)
    rows = [
        (arm, seed, step, quantity, component, rng.normal())
        for arm in ("b", "a")
        for seed in (0, 1)
        for step in range(40)
        for quantity, component in (("score", "x"), ("variance", "x"), ("variance", None), ("no_signal", None))
    ]
    table = pd.DataFrame(rows, columns=["arm", "seed", "step", "quantity", "component", "value"])
    found = predictors(table, ["a", "b"], ["x"], 50, 0.95)
    assert list(zip(found["arm"], found["predictor"], strict=True)) == [
        (arm, predictor) for arm in "ab" for predictor in ("variance", "no_signal")
    ]
    assert set(found["window"]) == {4}
    assert set(found["seeds"]) == {2}
