"""Figures of a study with more arms than a figure can show: the best and worst arms, and the others' distribution."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from reward_ablation.figures.evaluation import arms
from reward_ablation.figures.few_arms import (
    FROM_EACH_END,
    count_of_others,
    draw_others_at,
    draw_others_in_row,
    reduced_to_shown_arms,
)

from .test_figures import check_texts, draw

NAME = "many arms"

#: Figures that show each arm of a study with few.
OF_ARMS = ["rewards", "signals", "evaluation", "arms", "differences", "cost"]
OF_ARMS += ["learning_curves", "similarity_parts", "similarity_steps"]


@pytest.mark.parametrize("figure", [*OF_ARMS, "title", "primary", "alignment", "methods_offline"])
def test_no_text_is_cut_off_or_written_over_another_and_the_page_is_of_a_readable_size(made_up, figure):
    drawn = draw(made_up, NAME, figure)
    check_texts(drawn)
    assert drawn.get_figheight() < 24
    assert drawn.get_figwidth() < 12


@pytest.mark.parametrize("figure", OF_ARMS)
def test_few_arms_are_drawn_and_the_note_counts_the_others(made_up, figure):
    drawn = draw(made_up, NAME, figure)
    study = made_up(NAME).study
    named = {arm for arm in study.arm_names if any(arm in words.replace("\n", "") for words in texts_of(drawn))}
    assert 2 * FROM_EACH_END <= len(named) <= 2 * FROM_EACH_END + 2
    assert f"the other {len(study.arms) - len(named)} arms" in notes_of(drawn)


def test_grey_is_from_the_lowest_to_the_highest_other_arm():
    row, column = Figure().subplots(2)
    values = np.array([2.0, 5, np.nan, 3, 4, 12])
    draw_others_in_row(row, pd.Series(values), 0)
    draw_others_at(column, [values], 0.5)
    for ends in (
        [bar.get_bbox().intervalx for bar in row.patches],
        [bar.get_bbox().intervaly for bar in column.patches],
    ):
        assert [sorted(each) for each in ends] == [[2, 12], pytest.approx([2.4, 9.2])]


def texts_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def notes_of(figure: Figure) -> str:
    return " ".join(" ".join(texts_of(figure)).split())


def test_the_best_and_the_worst_arms_are_shown_with_the_baseline_and_the_control(made_up):
    given = made_up(NAME)
    few = reduced_to_shown_arms(given.study, given.tables["evaluation_by_arm"])
    table = given.tables["evaluation_by_arm"]
    of_question = (table["mode"] == "greedy") & (table["metric"] == "accuracy_strict") & (table["arm"] != "base")
    ordered = table[of_question].sort_values("estimate", ascending=False, kind="stable")["arm"].tolist()
    expected = {*ordered[:FROM_EACH_END], *ordered[-FROM_EACH_END:], given.study.baseline}
    assert set(few.arm_names) == expected
    assert few.arm_names == [arm for arm in ordered if arm in expected]
    assert count_of_others(few) == len(given.study.arms) - len(expected)


def test_the_band_of_the_others_holds_each_of_their_means(made_up):
    given = made_up(NAME)
    few = reduced_to_shown_arms(given.study, given.tables["evaluation_by_arm"])
    rows = given.tables["rewards_by_step"].query("quantity == 'correctness'")
    hidden = rows[~rows["arm"].isin(few.arm_names)].groupby(["arm", "step"])["mean"].mean()
    figure = draw(made_up, NAME, "rewards")
    assert f" of {len(given.study.runs)} runs" in notes_of(figure)  # of all arms
    panel = figure.axes[0]
    band = panel.collections[0].get_paths()[0].vertices
    for step, means in hidden.groupby("step"):
        drawn = band[band[:, 0] == step, 1]
        np.testing.assert_allclose([drawn.min(), drawn.max()], [means.min(), means.max()])


def test_the_figure_of_weights_marks_hidden_arms(made_up):
    given = made_up(NAME)
    table = given.tables["evaluation_by_arm"]
    primary = given.study.primary.model_copy(update={"metric": "format"})  # chooses the arms
    study = given.study.model_copy(update={"primary": primary})
    shown = reduced_to_shown_arms(study, table).arm_names
    hidden = next(arm for arm in study.arm_names if arm not in shown and len(arm) < 10)
    best = (table["mode"] == "greedy") & (table["metric"] == "accuracy_strict") & (table["arm"] == hidden)
    table = table.assign(**{name: table[name].mask(best, 1.0) for name in ("estimate", "low", "high")})
    assert f"{hidden} (not shown) (1.000 [1.000, 1.000]) highest" in " ".join(arms(table, study).get_suptitle().split())
