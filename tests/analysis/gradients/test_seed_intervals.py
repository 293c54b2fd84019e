"""Intervals over few seeds: their definition, and how often they hold the truth."""

import numpy as np
import pytest
from scipy.signal import lfilter

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.gradients.seed_intervals import margin_over_steps, means_over_steps_and_seeds, over_seeds
from reward_ablation.analysis.gradients.similarity_by_arm import ratios
from reward_ablation.analysis.gradients.tables import SCHEMAS, alignment
from reward_ablation.analysis.statistics.intervals import block_length, block_shares
from reward_ablation.analysis.study_file import StudyFile


def test_seeds_without_a_value_are_no_degrees_of_freedom():
    values = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0], [np.nan, np.nan, np.nan]])
    found = over_seeds(values, np.zeros((3, 3, 5)), 0.95)
    assert found.estimate[0] == 2
    # t of one degree of freedom at .975 is tan(.475 pi) = 12.706; the standard error of 1 and 3 is 1
    assert [2 - found.low[0], found.high[0] - 2] == pytest.approx([12.7062, 12.7062], rel=1e-4)
    assert found.high[1] - 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert np.isnan([found.estimate[2], found.low[2], found.high[2]]).all()
    assert list(found.interval) == ["seeds", "seeds", None]


def test_one_seed_has_an_interval_over_steps_and_says_so():
    values = np.full((1, 2, 30), np.nan)
    values[0, 1] = np.random.default_rng(0).normal(size=30)
    found = means_over_steps_and_seeds(values, 0.95)
    assert found.interval[0] == "steps"
    assert found.high[0] - found.estimate[0] == pytest.approx(margin_over_steps(values[0, 1], 0.95))
    assert means_over_steps_and_seeds(values[..., :1] * 0, 0.95).interval[0] is None  # one step tells nothing


def test_the_error_over_steps_is_that_of_resampled_blocks():
    steps = np.random.default_rng(0).normal(size=24).cumsum()
    length = block_length(24)
    means = block_shares(40_000, 24, length, np.random.default_rng(1)) @ steps
    blocks = 24 / length
    expected = means.std() * np.sqrt(blocks / (blocks - 1))
    quantile = 2.364624  # Student's t, 7 degrees of freedom: 24 steps are 8 blocks of 3
    assert margin_over_steps(steps, 0.95) == pytest.approx(quantile * expected, rel=0.02)


def alike_neighbours(rng, shape, memory=0.5):
    """Noise of unit variance whose neighbouring steps are correlated."""
    noise = lfilter([np.sqrt(1 - memory**2)], [1, -memory], rng.normal(size=(*shape[:-1], shape[-1] + 50)))
    return noise[..., 50:]


def test_intervals_of_means_hold_the_truth():
    rng = np.random.default_rng(3)
    values = 1 + 0.3 * rng.normal(size=(4000, 2, 1)) + alike_neighbours(rng, (4000, 2, 40))
    found = means_over_steps_and_seeds(values, 0.95)
    assert 0.93 < np.mean((found.low < 1) & (found.high > 1)) < 0.97
    one_seed = means_over_steps_and_seeds(alike_neighbours(rng, (4000, 1, 200), memory=0.3), 0.95)
    assert 0.91 < np.mean((one_seed.low < 0) & (one_seed.high > 0)) < 0.97


def test_intervals_of_cosines_hold_the_truth():
    """Inner products with noise; squared norms that vary by a factor of some e from step to step."""
    rng, seeds = np.random.default_rng(2), 2
    shape = (3000, seeds, 40)
    size_a, size_b = np.exp(alike_neighbours(rng, (2, *shape)) / 2)
    cosine = 0.3 + 0.05 * rng.normal(size=(3000, seeds, 1)) + 0.2 * alike_neighbours(rng, shape)
    truth = 0.3 * np.exp(1 / 8) ** 2 / np.exp(1 / 2)  # E a E b / sqrt(E a^2 E b^2) of independent lognormal sizes
    by_seed, by_step = ratios((cosine * size_a * size_b)[None], np.stack([size_a**2, size_b**2]))
    found = over_seeds(by_seed[0], by_step[0], 0.95)
    assert 0.93 < np.mean((found.low < truth) & (found.high > truth)) < 0.97


def test_effects_are_means_over_steps_and_then_over_seeds():
    study = StudyFile.model_validate(MadeUpStudy(arms={"x": {"a": 1.0, "b": 0.0}}, seeds=(0, 1)).plan())
    nothing = np.array([np.nan, np.nan])  # a step whose advantages are all 0
    effects = [{1: np.array([1.0, np.nan]), 2: np.array([2.0, 4]), 3: nothing}, {1: np.array([6.0, np.nan])}]
    found = alignment("x", study.runs_of("x"), effects, study).set_index("component")
    assert found.loc["a", "estimate"] == (1.5 + 6) / 2
    assert found.loc["b", "estimate"] == 4
    # Student's t at .975 with one degree of freedom is 12.706; the standard error of 1.5 and 6 is 2.25
    assert found.loc["a", "high"] - 3.75 == pytest.approx(12.7062 * 2.25, rel=1e-4)
    # steps 1 and 2, whatever seeds know them
    assert found.loc["a", ["weight", "seeds", "steps", "interval"]].tolist() == [1, 2, 2, "seeds"]
    assert found.loc["b", ["low", "high", "interval"]].isna().all()  # known at one step of one seed


def test_without_gram_matrices_the_tables_are_empty_and_the_log_says_why(tmp_path, capsys):
    MadeUpStudy(steps=2).write(tmp_path)
    found = made_tables(tmp_path, "gradients")
    for name in SCHEMAS:
        assert found[name].empty == (name not in ("similarity_by_step", "similarity_by_arm")), name
    assert "4 measured steps left out of alignment and split halves: there is no such file" in capsys.readouterr().out
