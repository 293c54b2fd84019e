"""The figure of the surface over the weights, in studies of two, three and four components."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from design.surfaces import FIFTEEN, hill
from design.test_surface_tables import by_run, study_of
from figures.test_figures import check_texts
from reward_ablation.design.surface.tables import compositions, surface_tables
from reward_ablation.figures.__main__ import draw
from reward_ablation.figures.catalogue import FIGURES, module_of

LINE = np.column_stack([np.linspace(0, 1, 9), np.linspace(1, 0, 9)])
FOUR = compositions(3, 4) / 3


def drawn(shares: np.ndarray, means: np.ndarray) -> Figure:
    study = study_of(shares)
    tables = surface_tables(study, by_run(study, means))
    return draw(module_of("weight_surface"), FIGURES["weight_surface"].title, list(tables.values()), study)


def note(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("shares", "means", "titles"),
    [
        (FIFTEEN, hill(FIFTEEN), ["strict accuracy", "uncertainty", "predicted and measured"]),
        (LINE, 0.3 + 0.4 * np.sin(3 * LINE[:, 0]), ["", "predicted and measured"]),
        (FOUR, 0.3 + 0.5 * FOUR[:, 0] * FOUR[:, 1] * 4, ["predicted and measured"]),
        (
            FIFTEEN,
            0.5 + 0.02 * np.random.default_rng(3).normal(size=15),
            ["predicted and measured"],
        ),  # noise has no map
    ],
)
def test_a_map_is_drawn_where_the_surface_predicts_and_its_check_always(shares, means, titles):
    figure = drawn(shares, means)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert [axes.get_title(loc="left") for axes in panels] == titles
    assert ("No map is drawn." in note(figure)) == (len(titles) == 1)
    check_texts(figure)
    points = panels[-1].containers[0].lines[0]
    np.testing.assert_allclose(points.get_xdata(), means, atol=1e-12)
    if len(titles) == 3:
        np.testing.assert_allclose(panels[0].collections[-1].get_array(), means)


def test_the_note_says_why_there_is_no_map():
    assert "no arm is suggested" in note(drawn(FIFTEEN, 0.5 + 0.02 * np.random.default_rng(3).normal(size=15)))
    assert note(drawn(FOUR, 0.3 + 0.5 * FOUR[:, 0] * FOUR[:, 1] * 4)).endswith(
        "There is no map for more than three components."
    )


def test_a_study_with_too_few_arms_has_a_page_of_words():
    figure = drawn(FIFTEEN[:4], np.full(4, 0.5))
    assert figure.texts[0].get_text() == "too few arms that differ in their weights alone"
