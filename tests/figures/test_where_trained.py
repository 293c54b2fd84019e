"""Figures of a study with a control, whose component the other arms do not score."""

from __future__ import annotations

from itertools import combinations

import pytest

from reward_ablation.figures.catalogue import FIGURES

from .conftest import THREE
from .test_figures import check_texts, draw

STUDY = "a control"
PAIRS = [" · ".join(pair) for pair in combinations([*THREE, "random"], 2)]


@pytest.mark.parametrize("figure", ["title", *FIGURES])
def test_each_figure_is_drawn(made_up, figure):
    check_texts(draw(made_up, STUDY, figure))


def lines_in(panel) -> set[str]:
    return {line.get_label() for line in panel.get_lines() if not line.get_label().startswith("_")}


def test_curves_are_of_the_arms_that_score_a_component(made_up):
    arms = set(made_up(STUDY).study.arm_names)
    of_panel = {panel.get_title(loc="left"): lines_in(panel) for panel in draw(made_up, STUDY, "rewards").axes}
    assert of_panel["random"] == {"random_only"}
    assert of_panel["format"] == of_panel["total"] == arms
    panels = draw(made_up, STUDY, "signals").axes
    signals = {panel.get_title(loc="left").replace("\n", " "): lines_in(panel) for panel in panels}
    assert signals["random: share of the advantage"] == {"random_only"}


def test_similarities_are_of_the_arms_that_score_both(made_up):
    of_panel = {panel.get_title(loc="left"): lines_in(panel) for panel in draw(made_up, STUDY, "similarity_steps").axes}
    assert list(of_panel) == PAIRS
    for pair, arms in of_panel.items():
        assert arms == ({"random_only"} if "random" in pair else set(made_up(STUDY).study.arm_names))


def test_alignment_has_no_point_where_a_component_is_not_scored(made_up):
    panels = draw(made_up, STUDY, "alignment").axes
    arms = {panel.get_title(loc="left"): {bar.get_label() for bar in panel.containers} for panel in panels}
    assert arms == {name: {"full", "no_format", "random_only"} for name in THREE} | {"random": {"random_only"}}


def test_a_weight_of_what_is_not_scored_is_no_zero(made_up):
    study = made_up(STUDY).study
    panel = draw(made_up, STUDY, "arms").axes[0]
    cells = {text.get_position(): text.get_text() for text in panel.texts}
    rows = [label.get_text() for label in panel.get_yticklabels()]
    written = {arm: [cells[column, rows.index(arm)] for column in range(4)] for arm in study.arm_names}
    assert written == {
        "full": ["1", "0.5", "0.5", "–"],
        "no_format": ["1", "0", "0.5", "–"],
        "random_only": ["0", "0", "0", "1"],
    }
