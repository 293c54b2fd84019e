"""Contents of the figures of the training signal and of other weights."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection, QuadMesh

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.gradients.what_if_map import point_table, weight_grid
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.weights import positions
from reward_ablation.figures.gradients.harm import harm
from reward_ablation.figures.gradients.similarity_heatmap import binned, cells, similarity_heatmap
from reward_ablation.figures.gradients.similarity_steps import exactness_note
from reward_ablation.figures.gradients.what_if import arm_weights, directions, what_if
from reward_ablation.figures.gradients.what_if_check import agreement, what_if_check
from reward_ablation.figures.training.predictors import predictors
from reward_ablation.figures.training.signals import signals
from reward_ablation.study.run_spec import ArmSpec
from specs import arm_spec

THREE = ["correctness", "format", "length"]

#: The table by which arms are chosen where a study has many.
NONE = pd.DataFrame()


def study(**changes) -> StudyFile:
    return StudyFile.model_validate(MadeUpStudy(**changes).plan())


def words(figure) -> str:
    texts = [text.get_text() for text in figure.texts]
    return " ".join([*texts, *(legend.get_title().get_text() for legend in figure.legends)]).replace("\n", " ")


def line(axes, arm: str):
    return next(line for line in axes.get_lines() if line.get_label() == arm)


def signal_rows(one: StudyFile, quantities) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (arm, seed, step, quantity, component, place + step + seed)
            for arm in one.arm_names
            for seed in one.seeds
            for step in range(1, 5)
            for place, (quantity, component) in enumerate(quantities)
        ],
        columns=["arm", "seed", "step", "quantity", "component", "value"],
    )


def test_signals_have_a_panel_each():
    one = study()
    quantities = [("no_signal", None), ("variance", None), ("tokens_correct", THREE[0]), ("tokens_wrong", THREE[0])]
    quantities += [(quantity, name) for quantity in ("advantage_share", "covariance") for name in THREE]
    figure = signals(signal_rows(one, quantities), NONE, one)
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles[:3] == ["groups with zero advantage", "length of right completions", "length of wrong completions"]
    assert titles[-1].startswith("length: covariance")
    # quantity number 3, steps 1 to 4, mean of seeds 0 and 1
    assert list(line(figure.axes[2], "format_only").get_ydata()) == [4.5, 5.5, 6.5, 7.5]


def test_lengths_by_correctness_are_shown_where_they_are_known():
    one = study()
    quantities = [
        ("no_signal", None),
        *((quantity, name) for quantity in ("advantage_share", "covariance") for name in THREE),
    ]
    assert len(signals(signal_rows(one, quantities), NONE, one).axes) == 7


def test_predictors_show_estimates_with_their_intervals():
    one = study()
    rows = [(arm, "variance", name, 0.2, -0.1, 0.6, 2, 40, 4) for arm in one.arm_names for name in THREE]
    columns = ["arm", "predictor", "component", "estimate", "low", "high", "seeds", "steps", "window"]
    figure = predictors(pd.DataFrame(rows, columns=columns), NONE, one)
    assert [axes.get_title(loc="left") for axes in figure.axes] == THREE
    bar = next(bar for bar in figure.axes[1].containers if bar.get_label() == "length_only")
    assert bar.lines[0].get_ydata()[0] == 0.2
    assert bar.lines[2][0].get_segments()[0][:, 1] == pytest.approx([-0.1, 0.6])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["variance in groups"]
    assert "the next 4 steps" in words(figure)
    assert "too few steps" in words(predictors(pd.DataFrame(columns=columns), NONE, one))


def similarities(values: np.ndarray, arms=("correctness_only",), pair=("correctness", "format")) -> pd.DataFrame:
    """Rows of `similarity_by_step` with similarities across prompts (layers, steps, seeds)."""
    names = ["embed_tokens", *(f"layers.{n}" for n in range(len(values) - 1))]
    rows = [
        (arm, seed, step + 1, layer, *pair, "alone", values[place, step, seed])
        for arm in arms
        for place, layer in enumerate(names)
        for step in range(values.shape[1])
        for seed in range(values.shape[2])
    ]
    columns = ["arm", "seed", "step", "layer", "component_a", "component_b", "definition", "cross_prompt"]
    return pd.DataFrame(rows, columns=columns).assign(folding_error=0.0)


def test_cells_are_means_and_say_whether_they_are_told_from_zero():
    values = np.array([[[0.5, 0.5001], [0.5, -0.4]], [[0.3, np.nan], [np.nan, np.nan]]])
    means, told = cells(similarities(values), {"embed_tokens": 0, "layers.0": 1}, {1: 0, 2: 1})
    assert means[0] == pytest.approx([0.50005, 0.05])
    assert means[1, 0] == 0.3
    assert np.isnan(means[1, 1])
    assert told.tolist() == [[True, False], [False, False]]  # one value is not told from 0


def test_many_steps_share_cells():
    assert list(binned(list(range(1, 8)), 3).values()) == [0, 0, 0, 1, 1, 1, 2]
    assert max(binned(list(range(250)), 20).values()) < 20


def test_heat_maps_are_symmetric_about_zero_and_show_what_is_unknown():
    one = study(arms={"x": dict.fromkeys(THREE[:2], 1.0)}, seeds=(0, 1))
    values = np.full((3, 4, 2), 0.2)
    values[1, 2] = np.nan
    figure = similarity_heatmap(similarities(values, ("x",)), one)
    mesh = next(mesh for mesh in figure.axes[0].collections if isinstance(mesh, QuadMesh))
    assert mesh.get_clim() == pytest.approx((-0.21, 0.21))
    assert mesh.get_array().mask.sum() == 1
    assert figure.axes[0].get_ylim() == (3, 0)  # the input on top
    assert "no two prompts share" in words(similarity_heatmap(similarities(0 * values, ("x",)), one))
    off = study(arms={"x": dict.fromkeys(THREE[:2], 1.0)}, gradients_every=0)
    assert "gradients.every is 0" in words(similarity_heatmap(similarities(values, ("x",)).iloc[:0], off))


def maps(one: StudyFile, effect=lambda weights: weights) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tables what_if, what_if_points and what_if_check."""
    grid = weight_grid(len(one.components))
    points = point_table(grid, one.components)
    effects = points.assign(effect=effect(points["weight"]), arm="base", step=4, seeds=2, steps=4, interval="seeds")
    effects = effects.assign(low=effects["effect"] - 0.1, high=effects["effect"] + 0.1)
    check = [
        (arm, name, float(arm == "length_only"), 0.5, 0.4, 0.6, 0.25, 0.2, 0.3, change, change - 0.1, change + 0.1, 2)
        for arm in one.arm_names
        for name, change in zip(one.components, (0.5, -0.5, 0.0, 0.5, 0.5), strict=False)
    ]
    values = [f"{name}{end}" for name in ("predicted", "covariance", "observed") for end in ("", "_low", "_high")]
    columns = ["arm", "component", "rewarded", *values, "seeds"]
    return effects, points, pd.DataFrame(check, columns=columns)


def test_the_map_of_three_components_is_a_triangle_with_the_arms():
    one = study()
    effects, points, check = maps(one)
    figure = what_if(effects, points, check, one)
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == [f"effect on {name}" for name in THREE]
    shown = figure.axes[0].collections[0]
    assert shown.get_clim() == (-1, 1)
    assert "correctness_only" not in words(figure)
    assert "base at its first 4 measured steps (up to step 4), 2 seeds" in words(figure)
    assert "Student's t over seeds" in words(figure)
    assert "block bootstrap over the steps of one seed" in words(
        what_if(effects.assign(interval="steps"), points, check, one)
    )
    assert directions(check, "correctness")["format_only"] == 1
    assert directions(check, "format")["format_only"] == -1
    assert directions(check, "length")["format_only"] == 0


def test_the_map_of_two_components_is_a_line_with_a_band():
    one = study(arms={"x": {"a": 1.0, "b": 0.0}, "y": {"a": 1.0, "b": 1.0}})
    effects, points, check = maps(one)
    panel = what_if(effects, points, check, one).axes[1]
    drawn = panel.get_lines()[0]
    assert list(drawn.get_ydata()) == pytest.approx(list(drawn.get_xdata()))  # the effect on b is its weight
    assert any(isinstance(band, PolyCollection) for band in panel.collections)


def test_the_map_of_more_components_shows_every_two():
    arms = {"x": dict.fromkeys("abcde", 1.0)}
    one = study(arms=arms)
    figure = what_if(*maps(one), one)
    assert len(figure.axes) == 5
    for panel, name in zip(figure.axes, "abcde", strict=True):
        lines = [line for line in panel.get_lines() if line.get_label() in "abcde"]
        assert [line.get_label() for line in lines] == [other for other in "abcde" if other != name]
        for drawn in lines:
            assert list(drawn.get_ydata()) == pytest.approx(list(drawn.get_xdata()))


def test_arms_with_a_weight_of_the_other_sign_are_not_on_the_map():
    one = study(arms={"x": {"a": 1.0, "b": -1.0}, "y": {"a": 1.0, "b": 3.0}, "z": {"a": 0.0, "b": 0.0}})
    assert list(arm_weights(one, np.array([1.0, 1.0]))) == ["y"]
    assert arm_weights(one, np.array([1.0, 1.0]))["y"] == pytest.approx([0.25, 0.75])
    assert list(arm_weights(one, np.array([1.0, -1.0]))) == ["x"]


def test_a_study_without_a_map_says_why():
    one, off = study(), study(gradients_every=0)
    effects, points, check = (table.iloc[:0] for table in maps(one))
    assert "do not say what other weights would do" in words(what_if(effects, points, check, one))
    assert "gradients.every is 0" in words(what_if(effects, points, check, off))
    assert "gradients.every is 0" in words(what_if_check(check, agreements(0, 0), NONE, off))
    single = study(arms={"x": {"a": 1.0}})
    assert "one component" in words(what_if(effects, points, check, single))
    assert "the study has one arm" in words(what_if_check(check, agreements(0, 0), NONE, single))


def agreements(ahead: float, margin: float, changes: int = 6) -> pd.DataFrame:
    """Rows of `what_if_agreement` with a map of correlation .6 that is ahead of the covariance by so much."""
    rows = [
        ("all", "predicted", 0.9, 0.8, 1.0, 0.4, 0.3, 0.5, 12, 4),
        ("unrewarded", "predicted", 0.6, 0.5, 0.7, ahead, ahead - margin, ahead + margin, changes, 4),
        ("unrewarded", "covariance", 0.6 - ahead, -1, 1, -ahead, -ahead - margin, margin - ahead, changes, 4),
    ]
    ends = ["estimate", "low", "high", "ahead", "ahead_low", "ahead_high"]
    return pd.DataFrame(rows, columns=["cells", "rule", *ends, "changes", "arms"])


def test_predictions_and_observations_have_all_intervals():
    one = study()
    figure = what_if_check(maps(one)[2], agreements(0.4, 0.1), NONE, one)
    filled, hollow = [bar for bar in figure.axes[0].containers if bar.get_label() == "correctness_only"]
    across, along = (segments.get_segments()[0] for segments in filled.lines[2])
    assert filled.lines[0].get_xdata()[0] == hollow.lines[0].get_xdata()[0] == 1  # as shares of the largest of a rule
    assert across[:, 0] == pytest.approx([0.8, 1.2])
    assert along[:, 1] == pytest.approx([0.4, 0.6])
    assert hollow.lines[2][0].get_segments()[0][:, 0] == pytest.approx([0.8, 1.2])
    rewarded = next(bar for bar in figure.axes[0].containers if bar.get_label() == "length_only")
    assert rewarded.lines[0].get_alpha() < filled.lines[0].get_alpha()
    assert "(0.50 to 0.70), and the covariance of 0.20" in words(figure)


@pytest.mark.parametrize(("ahead", "margin"), [(0.4, 0.5), (0.0, 0.0), (-0.2, 0.1), (0.4, np.nan)])
def test_a_correlation_that_a_trivial_rule_reaches_is_not_told(ahead, margin):
    told = agreement(agreements(ahead, margin))
    assert "not better than the covariance of scores" in told
    assert "0.6" not in told
    assert "0.9" not in told


def test_too_few_changes_are_said():
    assert "Too few changes" in agreement(agreements(0.4, 0.1).iloc[:1])
    assert "Too few changes" in agreement(agreements(0.4, 0.1).assign(estimate=np.nan))


def test_harm_shows_shares_with_their_intervals():
    one = study()
    rows = [(arm, name, 0.1, 0.02, 0.3, 2, 40, "seeds") for arm in one.arm_names for name in THREE]
    columns = ["arm", "component", "estimate", "low", "high", "seeds", "steps", "interval"]
    table = pd.DataFrame(rows, columns=columns)
    panel = harm(table, NONE, one).axes[0]
    bar = next(bar for bar in panel.containers if bar.get_label() == "length_only")
    assert list(bar.lines[0].get_ydata()) == [0.1] * 3
    assert bar.lines[2][0].get_segments()[0][:, 1] == pytest.approx([0.02, 0.3])
    assert "5\u00a0% false discoveries" in words(harm(table, NONE, one))
    assert "do not say what other weights would do" in words(harm(table.iloc[:0], NONE, one))


def test_corners_and_centre_of_the_simplex():
    weights = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    # An equilateral triangle of side 1: top, lower left, lower right, and the centre at a third of its height.
    height = 3**0.5 / 2
    np.testing.assert_allclose(positions(weights), [[0.5, height], [0, 0], [1, 0], [0.5, height / 3]], atol=1e-12)


@pytest.mark.parametrize(
    ("gpus", "training", "words"),
    [(0, {}, "float32"), (1, {}, "bfloat16"), (1, {"bf16": False}, "float32"), (0, {"bf16": True}, "bfloat16")],
)
def test_precision_is_said(gpus, training, words):
    spec = ArmSpec.read(arm_spec(gpus=gpus, training=training))
    study = SimpleNamespace(runs=[SimpleNamespace(spec=spec)])
    assert exactness_note(study, pd.Series([0.0])) == f"Gradients computed in {words}."
