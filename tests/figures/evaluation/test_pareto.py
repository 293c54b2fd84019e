import numpy as np
import pytest

from reward_ablation.figures.elements.style import arm_looks
from reward_ablation.figures.evaluation.pareto import front, pareto


@pytest.mark.parametrize(
    ("tokens", "accuracy", "places"),
    [
        ([10, 20, 30], [0.1, 0.2, 0.3], [0, 1, 2]),  # each better in one of the two
        ([30, 10, 20], [0.3, 0.1, 0.05], [1, 0]),  # the last is longer and worse than the second
        ([10, 10], [0.1, 0.2], [1]),  # as long, and better
        ([10, 20], [0.2, 0.2], [0]),  # as good, and shorter
        ([10, 10], [0.2, 0.2], [0, 1]),  # alike: neither beats the other
    ],
)
def test_the_front_is_what_nothing_beats(tokens, accuracy, places):
    assert list(front(np.array(tokens), np.array(accuracy))) == places


def test_arms_and_base_have_both_intervals(made_up):
    table, study = made_up("four arms").tables["evaluation_by_arm"], made_up("four arms").study
    panel = pareto(table, study).axes[0]
    rows = table[(table["mode"] == "greedy") & (table["arm"] == "format_only")].set_index("metric")
    drawn = next(bar for bar in panel.containers if bar.get_label() == "format_only")
    points, _, (across, up) = drawn
    assert points.get_xdata()[0] == pytest.approx(rows.loc["tokens", "estimate"])
    assert points.get_ydata()[0] == pytest.approx(rows.loc["accuracy_strict", "estimate"])
    np.testing.assert_allclose(across.get_segments()[0][:, 0], rows.loc["tokens", ["low", "high"]].astype(float))
    np.testing.assert_allclose(up.get_segments()[0][:, 1], rows.loc["accuracy_strict", ["low", "high"]].astype(float))
    assert points.get_color() == arm_looks(study)["format_only"].colour
    assert [bar.get_label() for bar in panel.containers] == ["base", *study.arm_names]


def test_the_front_is_drawn_through_estimates(made_up):
    table, study = made_up("four arms").tables["evaluation_by_arm"], made_up("four arms").study
    panel = pareto(table, study).axes[0]
    line = next(line for line in panel.get_lines() if line.get_label() == "front")
    rows = table[table["mode"] == "greedy"]
    tokens = rows[rows["metric"] == "tokens"].set_index("arm")["estimate"]
    accuracy = rows[rows["metric"] == "accuracy_strict"].set_index("arm")["estimate"]
    on_it = set(zip(line.get_xdata(), line.get_ydata(), strict=True))
    beaten = {
        arm
        for arm in tokens.index
        if ((tokens <= tokens[arm]) & (accuracy >= accuracy[arm]) & (tokens.index != arm)).any()
    }
    assert on_it == {(tokens[arm], accuracy[arm]) for arm in tokens.index if arm not in beaten}
