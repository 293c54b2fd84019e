from dataclasses import replace
from functools import cache

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from reward_ablation.figures.__main__ import draw as draw_from
from reward_ablation.figures.book import title_page
from reward_ablation.figures.catalogue import FIGURES, PAGES
from reward_ablation.figures.curves import MOST_POINTS, points_note, thinned
from reward_ablation.figures.evaluation import arms, evaluation, primary
from reward_ablation.figures.gradients import similarity_parts, similarity_steps
from reward_ablation.figures.style import STYLE, arm_looks, filled, joined, wrapped

from .conftest import THREE


@cache
def draw(made_up, name: str, figure: str) -> Figure:
    """A figure of a study, drawn once for all tests, which must not change it."""
    given = made_up(name)
    return title_page(given.study, given.tables["provenance"]) if figure == "title" else drawn_with(given, figure)


def heading(figure: Figure) -> str:
    """The note on a figure, in one line."""
    return " ".join(figure.legends[0].get_title().get_text().split())


def drawn_with(given, figure: str, **columns) -> Figure:
    """A figure of a study, with other values in some columns of its tables."""
    return draw_from(figure, [table.assign(**columns) for table in given.tables.of_figure(figure)], given.study)


def tick_labels(figure: Figure, *, drawn: bool) -> set[int]:
    """Ids of the labels of drawn ticks, or of ticks outside the range of their axis."""
    labels = set()
    for axes in figure.findobj(Axes):
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks():
                inside = axes.axison and min(limits) <= tick.get_loc() <= max(limits)
                if inside == drawn:
                    labels |= {id(tick.label1), id(tick.label2)}
    return labels


def texts_on_canvas(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is drawn with the box that it takes, after layout."""
    with matplotlib.rc_context(STYLE):
        canvas = FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        outside = tick_labels(figure, drawn=False)
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        return [
            (text.get_text(), text.get_window_extent(canvas.get_renderer()))
            for text in texts
            if id(text) not in outside
        ]


def line(axes, arm: str):
    return next(line for line in axes.get_lines() if line.get_label() == arm)


#: Figures whose rows or curves are arms, of a study with long names.
OF_ARMS = ["title", "rewards", "signals", "primary", "evaluation", "arms", "differences", "by_level", "cost"]
OF_GRADIENTS = [name for name, entry in FIGURES.items() if entry.category == "Gradients"]
LAYOUTS = [
    *(("a control", figure) for figure in ["title", *FIGURES]),
    *(("one of everything", figure) for figure in ["title", *FIGURES]),
    *(("twelve arms", figure) for figure in [*OF_ARMS, "similarity_parts", "similarity_steps"]),
    *(("methods", figure) for figure in ("method_weights", "methods_offline", "signals", "alignment")),
    *(("an unscored component", figure) for figure in FIGURES),
    *(("long names", figure) for figure in ["title", *FIGURES]),
    *(("arms without gradients", figure) for figure in ["signals", *OF_GRADIENTS]),
    ("ten pairs", "similarity_parts"),
]


@pytest.mark.parametrize(("name", "figure"), LAYOUTS)
def test_a_figure_has_its_title_and_no_text_is_cut_off_or_written_over_another(made_up, name, figure):
    drawn = draw(made_up, name, figure)
    check_texts(drawn)
    if figure != "title":
        assert drawn.get_suptitle().startswith(FIGURES[figure].title)


def check_texts(figure: Figure) -> None:
    texts = texts_on_canvas(figure)
    assert texts
    width, height = figure.get_size_inches() * figure.dpi
    for words, box in texts:
        assert min(box.x0, box.y0) >= 0, words
        assert box.x1 <= width, words
        assert box.y1 <= height, words
    boxes = np.array([np.sort(box.padded(-1).get_points(), axis=0) for _, box in texts])
    over = (np.maximum(boxes[:, None, 0], boxes[:, 0]) <= np.minimum(boxes[:, None, 1], boxes[:, 1])).all(axis=2)
    assert [(texts[one][0], texts[other][0]) for one, other in np.argwhere(np.triu(over, 1))] == []


def test_rewards_show_the_mean_over_seeds_and_each_seed(made_up):
    table = made_up("four arms").tables["rewards_by_step"]
    figure = draw(made_up, "four arms", "rewards")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [*THREE, "total", "completion length", "cut off by the limit"]
    rows = table[(table["arm"] == "length_only") & (table["quantity"] == "format")]
    by_step = rows.groupby("step")["mean"]
    np.testing.assert_array_equal(line(figure.axes[1], "length_only").get_xdata(), np.arange(1, 9))
    np.testing.assert_allclose(line(figure.axes[1], "length_only").get_ydata(), by_step.mean())
    colour = line(figure.axes[1], "length_only").get_color()
    thin = [one for one in figure.axes[1].get_lines() if (one.get_label(), one.get_color()) == ("_seed", colour)]
    for drawn, (_, of_seed) in zip(thin, rows.groupby("seed"), strict=True):
        np.testing.assert_allclose(drawn.get_ydata(), of_seed.sort_values("step")["mean"])


def test_an_arm_has_one_look_in_all_figures_and_the_first_arms_differ_in_all_of_it(made_up):
    for figure in ("rewards", "similarity_steps"):
        for axes in draw(made_up, "four arms", figure).axes:
            for arm, look in arm_looks(made_up("four arms").study).items():
                drawn = line(axes, arm)
                assert (drawn.get_color(), drawn.get_marker()) == (look.colour, look.marker)
    given = list(arm_looks(made_up("twelve arms").study).values())
    for part in ("colour", "dashes", "marker"):
        assert len({str(getattr(look, part)) for look in given[:5]}) == 5
    assert len(set(given)) == 12


def test_weights_and_conflicts_of_methods_have_a_curve_each(made_up):
    panels = {panel.get_title(loc="left"): panel for panel in draw(made_up, "methods", "method_weights").axes}
    assert len(panels["gradients"].get_lines()) == len(THREE)
    assert len(panels["gradients: conflicts"].get_lines()) == 1


def test_many_steps_are_averaged_and_the_figure_says_so(made_up):
    table = made_up("many steps").tables["rewards_by_step"]
    assert points_note(pd.Series([7]), MOST_POINTS, True) == ""
    of_every_second = pd.Series(range(2, 1001, 2))
    assert "mean over what was logged in 10 neighbouring steps" in points_note(of_every_second, MOST_POINTS, True)
    total = table[table["quantity"] == "total"]
    points = thinned(total, "mean")
    one, source = points[points["seed"] == 1], total[total["seed"] == 1].sort_values("step")
    assert len(one) == 83 <= MOST_POINTS  # 250 steps by threes: 82 points of 3 steps, the last of 4
    assert one["mean"].iloc[0] == pytest.approx(source["mean"].iloc[:3].mean())
    assert one["step"].iloc[-1] == pytest.approx((247 + 248 + 249 + 250) / 4)
    figure = draw(made_up, "many steps", "rewards")
    assert "mean over 3 neighbouring steps" in heading(figure)


def test_a_line_is_the_mean_of_all_seeds_of_its_arm(made_up):
    given = made_up("four arms")
    table, *others = given.tables.of_figure("rewards")
    odd = table["arm"].eq("length_only") & table["seed"].eq(1) & (table["step"] % 2).eq(1)
    figure = draw_from("rewards", [table[~odd], *others], given.study)
    rows = table[(table["arm"] == "length_only") & (table["quantity"] == "format") & (table["step"] % 2 == 0)]
    drawn = line(figure.axes[1], "length_only")
    np.testing.assert_array_equal(drawn.get_xdata(), [2, 4, 6, 8])
    np.testing.assert_allclose(drawn.get_ydata(), rows.groupby("step")["mean"].mean())
    assert "mean over 2 seeds, where all seeds of an arm have steps" in heading(figure)
    assert "where all seeds" not in heading(draw(made_up, "four arms", "rewards"))


def test_evaluation_shows_estimates_with_their_intervals(made_up):
    table = made_up("four arms").tables["evaluation_by_arm"]
    figure = draw(made_up, "four arms", "evaluation")
    row = table.set_index(["arm", "mode", "metric"]).loc[("format_only", "greedy", "format")]
    adherence = figure.axes[1]
    bar = next(bar for bar in adherence.containers if bar.get_label() == "format_only")
    assert bar.lines[0].get_xdata()[0] == pytest.approx(row["estimate"])
    ends = bar.lines[2][0].get_segments()[0][:, 0]
    assert ends == pytest.approx([row["low"], row["high"]])
    base = table.set_index(["arm", "mode", "metric"]).loc[("base", "greedy", "format")]
    assert any(np.allclose(drawn.get_xdata(), base["estimate"]) for drawn in adherence.get_lines())
    labels = [axes.get_xlabel() for axes in figure.axes[:3]]
    assert labels == ["strict accuracy", "format adherence", "completion tokens"]


def test_shares_that_are_all_alike_have_an_axis_and_the_declared_accuracy_is_shown(made_up):
    given = made_up("four arms")
    alike = given.tables["evaluation_by_arm"].assign(estimate=1.0, low=1.0, high=1.0)
    low, high = arms(alike, given.study).axes[1].get_xlim()
    assert low < 1 < high < 1.01
    assert high - low == pytest.approx(0.1, abs=0.02)
    primary = given.study.primary.model_copy(update={"metric": "accuracy_lenient"})
    figure = evaluation(given.tables["evaluation_by_arm"], given.study.model_copy(update={"primary": primary}))
    assert figure.axes[0].get_xlabel() == "lenient accuracy"
    assert [bar.get_label() for bar in figure.axes[0].containers] == given.study.arm_names


def test_arms_are_in_order_of_accuracy_with_their_weights(made_up):
    table = made_up("four arms").tables["evaluation_by_arm"]
    rows = table[(table["mode"] == "greedy") & (table["metric"] == "accuracy_strict") & (table["arm"] != "base")]
    order = list(rows.sort_values("estimate", ascending=False, kind="stable")["arm"])
    matrix, greedy, sampled = draw(made_up, "four arms", "arms").axes
    assert [label.get_text() for label in matrix.get_yticklabels()] == order
    for panel in (greedy, sampled):
        assert [bar.get_label() for bar in panel.containers] == order
    cells = {(text.get_position()): text.get_text() for text in matrix.texts}
    assert cells[0, order.index("equal_weights")] == "0.34"
    assert cells[2, order.index("correctness_only")] == "0"


def test_similarity_steps_leaves_gaps_where_there_is_no_direction(made_up):
    panels = first, second, _ = draw(made_up, "four arms", "similarity_steps").axes
    assert {panel.get_ylim()[0] for panel in panels} == {-first.get_ylim()[1]}  # one range about zero
    assert first.get_title(loc="left") == "correctness · format"
    gaps = np.isnan(np.asarray(line(first, "equal_weights").get_ydata(), dtype=float))
    assert list(gaps) == [False] * 5 + [True] * 3  # format is constant from step 6
    table = made_up("four arms").tables["similarity_by_step"]
    rows = table[(table["arm"] == "equal_weights") & (table["layer"] == "all") & (table["definition"] == "alone")]
    rows = rows[(rows["component_a"] == "correctness") & (rows["component_b"] == "length")]
    means = rows.groupby("step")["cross_prompt"].mean()
    np.testing.assert_allclose(line(second, "equal_weights").get_ydata(), means, rtol=1e-6)


@pytest.mark.parametrize(
    ("figure", "table", "values"),
    [
        (similarity_steps, "similarity_by_step", ["cross_prompt"]),
        (similarity_parts, "similarity_by_arm", ["estimate", "low", "high"]),
    ],
)
def test_a_pair_without_any_direction_is_said_in_words(made_up, figure, table, values):
    rows = made_up("four arms").tables[table].copy()
    rows.loc[rows["component_b"] == "format", values] = np.nan
    first, second, _ = figure(rows, pd.DataFrame(), made_up("four arms").study).axes
    assert "zero at every step" in first.texts[0].get_text()
    assert not second.texts


def test_the_primary_figure_shows_the_declared_contrasts_alone(made_up):
    given = made_up("four arms")
    rows = given.tables["paired_differences"].query("family == 'primary'")
    panel = draw(made_up, "four arms", "primary").axes[0]
    names = [label.get_text().replace("\n", "") for label in panel.get_yticklabels()]
    assert names == [f"{row.arm} − {row.baseline}" for row in rows.itertuples()]
    bars = [bar for bar in panel.containers if isinstance(bar, ErrorbarContainer)]
    for bar, row in zip(bars, rows.itertuples(), strict=True):
        assert bar.lines[0].get_xdata()[0] == row.estimate
        assert bar.lines[2][0].get_segments()[0][:, 0] == pytest.approx([row.low, row.high])


def test_the_title_of_the_primary_figure_says_what_was_found(made_up):
    given = made_up("four arms")
    table = given.tables["paired_differences"].query("family == 'primary'")
    first, second, *_ = table.index
    table = table.loc[[first, second]].assign(p_holm=[0.2, 0.01], estimate=[0.5, -0.021], low=-0.03, high=-0.012)
    arm = table.loc[second, "arm"]
    clearest = f"{arm} − {given.study.baseline}: −0.021 [−0.030, −0.012]"
    figure = primary(table, given.tables["evaluation_by_arm"], given.study)
    assert figure.get_suptitle() == f"1 of 2 significant; clearest: {clearest}"
    assert primary(table.loc[[second]], given.tables["evaluation_by_arm"], given.study).get_suptitle() == clearest


@pytest.mark.parametrize("figure", [*PAGES, "cost"])
def test_the_title_of_a_page_says_what_was_found(made_up, figure):
    assert len(draw(made_up, "a control", figure).get_suptitle()) > len(FIGURES[figure].title) + 10


def test_similarity_parts_shows_estimates_and_intervals(made_up):
    panel = draw(made_up, "four arms", "similarity_parts").axes[1]
    assert panel.get_title(loc="left") == "correctness · length"
    labels = [label.get_text() for label in panel.get_xticklabels()]
    assert labels == ["split halves", "across prompts", "cosine", "self", "same prompt"]
    table = made_up("four arms").tables["similarity_by_arm"]
    rows = table.query("arm == 'format_only' and layer == 'all' and definition == 'alone'")
    rows = rows.query("component_a == 'correctness' and component_b == 'length'").set_index("part")
    rows = rows.loc[["split_halves", "cross_prompt", "cosine", "self", "same_prompt"]]
    points, _, (bars,) = next(bar for bar in panel.containers if bar.get_label() == "format_only")
    np.testing.assert_allclose(points.get_ydata(), rows["estimate"])
    drawn = [ends[:, 1] for ends in bars.get_segments() if len(ends)]
    np.testing.assert_allclose(drawn, rows[["low", "high"]].dropna())  # norms of split halves are not resolved here


@pytest.mark.parametrize(
    ("name", "words", "figures"),
    [
        ("gradients off", "not measured: gradients.every is 0", ["similarity_steps"]),
        ("TRL's backward pass", "not measured: gradients.backward is trl", OF_GRADIENTS),
        ("one component", "nothing to compare: the study has one component", ["similarity_steps"]),
    ],
)
def test_no_similarity_is_said_in_words(made_up, name, words, figures):
    for figure in figures:
        assert words in [text.get_text() for text in draw(made_up, name, figure).findobj(Text)]


def test_title_page_names_the_study(made_up):
    study = made_up("four arms").study
    words = "\n".join(text.get_text() for text in draw(made_up, "four arms", "title").findobj(Text))
    assert "the same for all 8 runs: code c0de, python 3.11.7, torch 2.13.0" in words
    assert "1 x NVIDIA H200" in words
    named = ["made_up", study.model, study.training_data, "gsm8k_test", "2: 0, 1", "8", "95 %", "0.34"]
    for name in [*named, *study.arm_names, *study.components]:
        assert name in words


def test_names_break_after_underscores():
    assert wrapped("a_rather_long_name", 9) == "a_rather_\nlong_name"
    assert wrapped("format · length, arms 1 to 6", 16) == "format · length,\narms 1 to 6"
    assert wrapped("x" * 12, 9) == "x" * 9 + "\n" + "x" * 3
    assert wrapped("an_arm − full\n3 seeds, open", 20) == "an_arm − full\n3 seeds, open"  # a break that is there
    words = "clearest: an_arm_with_a_long_name − full: 0.042"
    assert filled(words, 16) == "clearest:\nan_arm_with_a_\nlong_name −\nfull: 0.042"
    assert joined(filled(words, 16)) == words  # in a caption


def test_an_interval_far_longer_than_the_others_ends_in_an_arrow(made_up):
    given = made_up("four arms")
    table = given.tables["paired_differences"].copy()
    first, *others = table.index[table["family"] == "primary"]
    table.loc[others, ["estimate", "low", "high"]] = (0.0, -0.01, 0.01)
    table.loc[first, ["estimate", "low", "high"]] = (0.02, -0.9, 0.9)
    figure = primary(table, given.tables["evaluation_by_arm"], given.study)
    panel = figure.axes[0]
    low, high = panel.get_xlim()
    assert -0.1 < low < -0.01
    assert 0.02 < high < 0.1
    arrows = {drawn.get_marker(): drawn.get_xdata()[0] for drawn in panel.get_lines() if drawn.get_marker() in "<>"}
    assert arrows == {"<": low, ">": high}
    assert "Arrows: the interval goes on." in heading(figure)
    table.loc[first, ["low", "high"]] = (-0.05, 0.06)
    assert "Arrows" not in heading(primary(table, given.tables["evaluation_by_arm"], given.study))


#: A study with a control, whose component the other arms do not score.
CONTROLLED = "a control"


def lines_in(panel) -> set[str]:
    return {line.get_label() for line in panel.get_lines() if not line.get_label().startswith("_")}


def test_curves_are_of_the_arms_that_score_a_component(made_up):
    arms = set(made_up(CONTROLLED).study.arm_names)
    of_panel = {panel.get_title(loc="left"): lines_in(panel) for panel in draw(made_up, CONTROLLED, "rewards").axes}
    assert of_panel["random"] == {"random_only"}
    assert of_panel["format"] == of_panel["total"] == arms
    panels = draw(made_up, CONTROLLED, "signals").axes
    signals = {panel.get_title(loc="left").replace("\n", " "): lines_in(panel) for panel in panels}
    assert signals["random: share of the advantage"] == {"random_only"}
    for panel in draw(made_up, CONTROLLED, "similarity_steps").axes:
        assert lines_in(panel) == ({"random_only"} if "random" in panel.get_title(loc="left") else arms)
    panels = draw(made_up, CONTROLLED, "alignment").axes
    aligned = {panel.get_title(loc="left"): {bar.get_label() for bar in panel.containers} for panel in panels}
    assert aligned == dict.fromkeys(THREE, arms) | {"random": {"random_only"}}


def test_a_weight_of_what_is_not_scored_is_no_zero(made_up):
    study = made_up(CONTROLLED).study
    panel = draw(made_up, CONTROLLED, "arms").axes[0]
    cells = {text.get_position(): text.get_text() for text in panel.texts}
    rows = [label.get_text() for label in panel.get_yticklabels()]
    written = {arm: " ".join(cells[column, rows.index(arm)] for column in range(4)) for arm in study.arm_names}
    assert written == {"full": "1 0.5 0.5 –", "no_format": "1 0 0.5 –", "random_only": "0 0 0 1"}


@pytest.mark.parametrize("figure", ["arms", "effects", "learning_curves"])
def test_a_title_is_about_the_answers_that_the_question_is_about(made_up, figure):
    given = made_up(CONTROLLED)
    study = given.study.model_copy(update={"primary": given.study.primary.model_copy(update={"mode": "sampled"})})
    assert " (sampled)" in drawn_with(replace(given, study=study), figure).get_suptitle()
