"""Contents of the figures of the training signal and of gradients."""

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.gradients import alignment
from reward_ablation.figures.training import rewards, signals

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
    without_lengths = [quantity for quantity in quantities if not quantity[0].startswith("tokens")]
    assert len(signals(signal_rows(one, without_lengths), NONE, one).axes) == len(figure.axes) - 2


def test_notes_name_the_arms_that_are_not_trained_on_the_total():
    one = study(training={"equal_weights": {"multi_objective_aggregation": "normalize_then_sum"}})
    rows = signal_rows(one, [("no_signal", None), *(("covariance", name) for name in THREE)])
    note = "Arms without a covariance with the total, because they are not trained on it: equal_weights."
    assert note in words(signals(rows, NONE, one))
    rows = signal_rows(one, [(name, None) for name in (*THREE, "total", "tokens", "truncated")])
    note = "Arms that are not trained on the total: equal_weights."
    assert note in words(rewards(rows.rename(columns={"value": "mean"}), NONE, one))


def alignment_rows(one: StudyFile, lows: dict[str, float]) -> pd.DataFrame:
    rows = [
        (arm.name, name, arm.weights[name], 0.1, lows.get(arm.name, 0.02), 0.3, 2, 40, "seeds")
        for arm in one.arms
        for name in THREE
    ]
    columns = ["arm", "component", "weight", "estimate", "low", "high", "seeds", "steps", "interval"]
    return pd.DataFrame(rows, columns=columns)


def tracked(figure) -> list[list[float]]:
    """Rows by panel that are said to be tracked only."""
    return [[text.xy[1] for text in panel.texts if text.get_text() == "tracked"] for panel in figure.axes]


def test_alignment_shows_effects_with_their_intervals_and_what_is_trained():
    one = study()
    table = alignment_rows(one, {"format_only": -0.02})
    figure = alignment(table, NONE, one)
    panel = figure.axes[2]
    assert panel.get_title(loc="left") == "length"
    bars = {bar.get_label(): bar for bar in panel.containers}
    assert list(bars["length_only"].lines[0].get_xdata()) == [0.1]
    assert bars["length_only"].lines[2][0].get_segments()[0][:, 0] == pytest.approx([0.02, 0.3])
    filled = {arm: bar.lines[0].get_markerfacecolor() != "white" for arm, bar in bars.items()}
    assert filled == {arm.name: arm.name != "format_only" for arm in one.arms}
    assert tracked(figure)[2] == [row for row, arm in enumerate(one.arms) if not arm.weights["length"]]
    assert "Student's t over seeds" in words(figure)
    assert "do not say what single completions contribute" in words(alignment(table.iloc[:0], NONE, one))


def test_a_component_that_a_method_names_is_not_tracked():
    """Of weight 0, and the method decides from it."""
    weights = {"static": (1.0, 0.5, 0.0), "lag": (1.0, 0.0, 0.0)}
    arms = {arm: dict(zip(THREE, of_arm, strict=True)) for arm, of_arm in weights.items()}
    method = {"method": "lagrangian", "parameters": {"at_least": {"format": 0.9}}, "components": ["format"]}
    method["bounds"] = {name: [0, 1] for name in THREE}
    one = StudyFile.model_validate(MadeUpStudy(arms=arms, methods={"lag": method}, steps=4, rollouts=2).plan())
    assert tracked(alignment(alignment_rows(one, {}), NONE, one)) == [[], [], [0, 1]]
