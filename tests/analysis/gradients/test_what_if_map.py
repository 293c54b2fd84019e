import numpy as np
import pytest

from analysis.all_tables import tables_of_gradients, tables_of_training
from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.gradients.measured_tables import predictions_by_arm
from reward_ablation.analysis.gradients.tables import SCHEMAS
from reward_ablation.analysis.gradients.what_if_map import map_table, point_table
from reward_ablation.analysis.study_file import StudyFile, read_study


def test_effects_are_means_over_seeds_and_steps():
    values = {(0, 1): np.array([[1.0, np.nan]]), (0, 2): np.array([[2.0, 4]]), (1, 1): np.array([[6.0, np.nan]])}
    found = map_table(values, "base", ["a", "b"], 0.9).set_index("component")
    assert found.loc["a", "effect"] == (1.5 + 6) / 2  # of seeds, whose steps are averaged first
    assert found.loc["b", "effect"] == 4
    # Student's t at .95 with one degree of freedom is 6.314; the standard error of 1.5 and 6 is 2.25
    assert found.loc["a", "high"] - 3.75 == pytest.approx(6.3138 * 2.25, rel=1e-4)
    assert found.loc["a", "interval"] == "seeds"
    assert found.loc["b", ["low", "high", "interval"]].isna().all()  # known at one step of one seed
    assert (found.loc["a", "step"], found.loc["a", "seeds"], found.loc["a", "steps"]) == (2, 2, 2)


def test_points_name_their_weights():
    found = point_table(np.array([[1.0, -0.0], [0.5, -0.5]]), ["a", "b"])
    assert found.to_numpy().tolist() == [[0, "a", 1], [0, "b", 0], [1, "a", 0.5], [1, "b", -0.5]]


def test_predictions_come_from_other_arms():
    study = StudyFile.model_validate(MadeUpStudy(arms={"x": {"a": 1.0}, "y": {"a": 2.0}, "z": {"a": 3.0}}).plan())
    # rows are arms' weights
    by_arm = {"x": {(0, 1): np.array([[1.0], [2], [3]])}, "y": {(0, 1): np.array([[5.0], [6], [7]])}}
    found = predictions_by_arm(study, by_arm)
    assert found["x"][0, 1] == 5
    assert found["y"][0, 1] == 2
    assert found["z"][0, 1] == 5  # the mean of 3 and 7


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    arms = {"both": {"a": 1.0, "b": 1.0}, "first": {"a": 1.0, "b": 0.0}}
    study = read_study(MadeUpStudy(arms=arms, steps=16, rollouts=32, problems=8, sample_grams=True).write(root))
    training = tables_of_training(study, root)
    return {**training, **tables_of_gradients(study, root, training)}


def test_a_study_with_gram_matrices_has_all_tables(tables):
    assert len(tables["what_if"]) == len(tables["what_if_points"]) == 21 * 2
    assert set(tables["what_if"]["arm"]) == {"both"}
    assert len(tables["what_if_check"]) == 4
    assert len(tables["what_if_agreement"]) == 9  # kinds of changes, rules
    assert len(tables["harm_by_step"]) == 2 * 2 * 16 * 2  # arms, seeds, steps, components
    assert len(tables["harm_by_arm"]) == 4
    assert len(tables["alignment_by_step"]) == 2 * 2 * 16 * 2 * 2  # arms, seeds, steps, quantities, components
    halves = tables["split_halves"]
    assert len(halves) == 2 * 2 * (16 + 6)  # steps; all steps together by layer and over all
    assert halves.loc[halves["step"].isna(), "layer"].nunique() == 6
    assert set(tables["predictors"]["predictor"]) >= {"gradient_cosine", "gradient_effect", "covariance"}


def test_the_map_knows_which_way_a_component_goes(tables):
    """The made-up gradients have a direction for each score: weight on a component raises it."""
    effects = tables["what_if"].set_index(["component", "point"])
    assert effects.loc[("a", 0), "effect"] > 0  # all weight on a
    assert effects.loc[("b", 20), "effect"] > 0
    assert effects.loc[("a", 0), "effect"] > effects.loc[("a", 20), "effect"]
    aligned = tables["alignment_by_step"]
    cosines = aligned[(aligned["arm"] == "first") & (aligned["quantity"] == "gradient_cosine")]
    means = cosines.groupby("component")["value"].mean()
    assert means["a"] > 0.5 > abs(means["b"])


def test_without_gram_matrices_the_tables_are_empty(tmp_path, capsys):
    study = read_study(MadeUpStudy(steps=2).write(tmp_path))
    found = tables_of_gradients(study, tmp_path, tables_of_training(study, tmp_path))
    for name in SCHEMAS:
        assert found[name].empty == (name not in ("similarity_by_step", "similarity_by_arm")), name
    assert (
        "16 measured steps left out of what_if, split_halves and harm: there is no such file" in capsys.readouterr().out
    )
