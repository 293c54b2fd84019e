import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.gradients.measured_tables import predictions_by_arm
from reward_ablation.analysis.gradients.tables import gradient_tables
from reward_ablation.analysis.gradients.what_if_map import (
    check_table,
    map_table,
    observed_change,
    point_table,
)
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.analysis.training.tables import training_tables


def test_effects_are_means_over_seeds_and_steps():
    values = {(0, 1): np.array([[1.0, np.nan]]), (0, 2): np.array([[2.0, 4]]), (1, 1): np.array([[6.0, np.nan]])}
    found = map_table(values, "base", ["a", "b"], 200, 0.9).set_index("component")
    assert found.loc["a", "effect"] == 3
    assert found.loc["b", "effect"] == 4
    assert 1 <= found.loc["a", "low"] <= 3 <= found.loc["a", "high"] <= 6
    assert (found.loc["a", "step"], found.loc["a", "seeds"], found.loc["a", "steps"]) == (2, 2, 2)


def test_points_name_their_weights():
    found = point_table(np.array([[1.0, -0.0], [0.5, -0.5]]), ["a", "b"])
    assert found.to_numpy().tolist() == [[0, "a", 1], [0, "b", 0], [1, "a", 0.5], [1, "b", -0.5]]


def test_the_observed_change_is_the_last_tenth_less_the_first():
    scores = np.array([[0.1, 0.3, *[0.9] * 16, 0.6, 0.8], [0.3, 0.5, *[0.9] * 16, 0.6, 0.8]])
    change, low, high = observed_change(scores, ("a",), 500, 0.95)
    assert change == pytest.approx(0.7 - 0.3)
    assert 0.1 <= low < change < high <= 0.7


def test_steps_without_a_score_are_left_out_of_the_observed_change():
    scores = np.full((2, 40), 0.8)
    scores[0, -2:] = np.nan
    assert observed_change(scores, ("a",), 100, 0.95) == pytest.approx((0, 0, 0))
    scores[:, -4:] = np.nan
    assert np.isnan(observed_change(scores, ("a",), 100, 0.95)).all()


def test_predictions_come_from_other_arms():
    study = StudyFile.model_validate(MadeUpStudy(arms={"x": {"a": 1.0}, "y": {"a": 2.0}, "z": {"a": 3.0}}).plan())
    # rows are arms' weights
    by_arm = {"x": {(0, 1): np.array([[1.0], [2], [3]])}, "y": {(0, 1): np.array([[5.0], [6], [7]])}}
    found = predictions_by_arm(study, by_arm)
    assert found["x"][0, 1] == 5
    assert found["y"][0, 1] == 2
    assert found["z"][0, 1] == 5  # the mean of 3 and 7


def test_a_check_has_both_sides():
    steps = np.arange(1, 21)
    rewards = pd.concat(
        pd.DataFrame({"arm": "x", "seed": seed, "step": steps, "quantity": "a", "mean": steps / 20}) for seed in (0, 1)
    )
    predictions = {"x": {(0, 1): np.array([2.0]), (1, 1): np.array([3.0])}}
    row = check_table(predictions, rewards, ["a"], 200, 0.95).iloc[0]
    assert row["predicted"] == 2.5
    assert (row["predicted_low"], row["predicted_high"]) == (2, 3)
    assert row["observed"] == pytest.approx(18 / 20)
    assert row["seeds"] == 2


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    arms = {"both": {"a": 1.0, "b": 1.0}, "first": {"a": 1.0, "b": 0.0}}
    study = read_study(MadeUpStudy(arms=arms, steps=16, rollouts=32, problems=8, sample_grams=True).write(root))
    training = training_tables(study, root)
    return {**training, **gradient_tables(study, root, training["rewards_by_step"], training["signals_by_step"])}


def test_a_study_with_gram_matrices_has_all_tables(tables):
    assert len(tables["what_if"]) == len(tables["what_if_points"]) == 21 * 2
    assert set(tables["what_if"]["arm"]) == {"both"}
    assert len(tables["what_if_check"]) == 4
    assert len(tables["alignment_by_step"]) == 2 * 2 * 16 * 2 * 2  # arms, seeds, steps, quantities, components
    halves = tables["split_halves"]
    assert len(halves) == 2 * 2 * (16 + 6)  # steps; all steps together by layer and over all
    assert halves.loc[halves["step"].isna(), "layer"].nunique() == 6
    assert set(tables["predictors"]["predictor"]) >= {"gradient_cosine", "gradient_effect", "covariance"}


def test_the_map_knows_which_way_a_component_goes(tables):
    """The made-up gradients have a direction for each score: weight on a component raises it."""
    effects = tables["what_if"].set_index(["component", "point"])
    assert effects.loc[("a", 0), "low"] > 0  # all weight on a
    assert effects.loc[("b", 20), "low"] > 0
    assert effects.loc[("a", 0), "effect"] > effects.loc[("a", 20), "effect"]
    aligned = tables["alignment_by_step"]
    cosines = aligned[(aligned["arm"] == "first") & (aligned["quantity"] == "gradient_cosine")]
    means = cosines.groupby("component")["value"].mean()
    assert means["a"] > 0.5 > abs(means["b"])


def test_without_gram_matrices_the_tables_are_empty(tmp_path, capsys):
    study = read_study(MadeUpStudy(steps=2).write(tmp_path))
    training = training_tables(study, tmp_path)
    found = gradient_tables(study, tmp_path, training["rewards_by_step"], training["signals_by_step"])
    for name in ("alignment_by_step", "split_halves", "what_if", "what_if_points", "what_if_check"):
        assert found[name].empty
    assert "16 measured steps left out of what_if and split_halves: there is no such file" in capsys.readouterr().out
