"""Differences to the baseline and effects of components, from tables of known numbers."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.text import Text

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.__main__ import draw
from reward_ablation.figures.evaluation import arms, differences, effects, evaluation, primary
from reward_ablation.figures.style import STYLE, arm_looks
from reward_ablation.study.looks import Look, Sequential

NUMBERS = {"estimate": 0.2, "low": 0.1, "high": 0.4, "seeds": 2, "questions": 40, "p": 0.01, "p_holm": 0.03}
METRICS = ("accuracy_strict", "format", "tokens")
KINDS = [(mode, metric) for mode in ("greedy", "sampled") for metric in METRICS]

#: The table by which arms are chosen where a study has many.
NONE = pd.DataFrame()


def rows_of(column: str, names: list[str], **labels) -> pd.DataFrame:
    """A row of the same numbers for each name in each mode and metric."""
    places = [{column: name, "mode": mode, "metric": metric} for name in names for mode, metric in KINDS]
    return pd.DataFrame(places).assign(dataset="gsm8k_test", flagged_arms=None, **NUMBERS, **labels)


def difference_table(study) -> pd.DataFrame:
    labels = {"baseline": study.baseline, "provenance": "same", "family": "primary"}
    return rows_of("arm", study.arm_names[1:], **labels)


def effect_table(method: str, components: list[str]) -> pd.DataFrame:
    return rows_of("component", components, method=method)


def texts_of(figure) -> list[str]:
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text)]


def test_differences_have_intervals_and_the_arms_looks_filled_where_significant(made_up):
    study = made_up("four arms").study
    table = difference_table(study)
    table.loc[table["arm"] == study.arm_names[2], "p_holm"] = 0.05  # not below 1 - confidence
    table.loc[table["arm"] == study.arm_names[3], "p_holm"] = np.nan
    panel = differences(table, NONE, study).axes[0]
    heading = f"against {study.baseline}, the baseline"
    labels = [label.get_text().replace("\n", " ") for label in panel.get_yticklabels()]
    assert labels == [heading, *study.arm_names[1:]]
    points, _, (bars,) = panel.containers[0]
    assert (points.get_xdata()[0], points.get_ydata()[0]) == (0.2, 1)
    np.testing.assert_allclose(bars.get_segments()[0][:, 0], [0.1, 0.4])
    assert any(list(line.get_xdata()) == [0, 0] for line in panel.get_lines())
    points = [container[0] for container in panel.containers if not hasattr(container, "patches")]
    for arm, point, filled in zip(study.arm_names[1:], points, [True, False, False], strict=True):
        look = arm_looks(study)[arm]
        assert (point.get_color(), point.get_marker()) == (look.colour, look.marker)
        assert to_rgba(point.get_markerfacecolor()) == to_rgba(look.colour if filled else "white")


def test_arms_stand_under_what_they_are_compared_with_and_what_was_not_declared_is_named(made_up):
    study = made_up("four arms").study
    first, second, *_ = study.arm_names[1:]
    study, table = study.model_copy(update={"control": second}), difference_table(study)
    others = table.query("arm == @first").assign(baseline=second, family="exploratory")
    figure = differences(pd.concat([table, others]), NONE, study)
    labels = [label.get_text().replace("\n", " ") for label in figure.axes[0].get_yticklabels()]
    assert labels[len(study.arm_names) :] == [f"against {second}, the control", first]
    named = f"Not declared, and so exploratory, in the primary panel: {first} − {second}."
    assert named in " ".join(texts_of(figure))
    assert "Not declared" not in " ".join(texts_of(differences(table, NONE, study)))


def test_the_primary_panel_and_flagged_arms_are_marked(made_up):
    study = made_up("four arms").study
    table = difference_table(study)
    flagged = (table["arm"] == study.arm_names[1]) & (table["mode"] == "greedy")
    figure = differences(table.assign(flagged_arms=np.where(flagged, study.arm_names[1], None)), NONE, study)
    panels = dict(zip(KINDS, figure.axes, strict=True))
    marked = [kind for kind, panel in panels.items() if panel.get_xlabel().endswith("(primary)")]
    assert marked == [("greedy", "accuracy_strict")]
    assert [text.get_text() for text in panels["greedy", "tokens"].texts] == ["†"]
    assert not panels["sampled", "tokens"].texts
    assert "†: the seeds of an arm differ more" in " ".join(texts_of(figure))
    rows = made_up("four arms").tables["evaluation_by_arm"]
    undrawn = rows.assign(flagged_arms=np.where(rows["metric"] == "accuracy_lenient", study.arm_names[1], None))
    for figure in (arms(undrawn, study), evaluation(undrawn, study)):  # of strict accuracy, format and tokens
        assert "†" not in " ".join(texts_of(figure))


def test_what_has_no_estimate_and_a_study_of_one_arm_say_so(made_up):
    study = made_up("four arms").study
    table = difference_table(study)
    table.loc[table["arm"] == study.arm_names[1], ["estimate", "low", "high"]] = np.nan
    assert [text.get_text() for text in differences(table, NONE, study).axes[0].texts] == ["no estimate"]
    one = made_up("one of everything")
    words = texts_of(differences(one.tables["paired_differences"], NONE, one.study))
    assert "nothing to compare: the study has one arm" in words


def test_effects_stand_under_their_definition(made_up):
    study = made_up("four arms").study
    table = effect_table("main_effect", study.components)
    panel = effects(table, study).axes[0]
    written = [label.get_text().replace("\n", " ") for label in panel.get_yticklabels()]
    assert written == ["mean difference beside the others", "correctness", "format", "length"]
    places = [container[0].get_ydata()[0] for container in panel.containers if not hasattr(container, "patches")]
    assert places == [1, 2, 3]


@pytest.mark.parametrize(
    ("all_runs", "seeds", "points", "bars"),
    [
        (True, 2, "mean over 2 seeds and all questions", "seeds and questions, uncorrected."),
        (False, 1, "the one seed that all arms of the effects have", "questions only;"),
        (False, 2, "mean over the 2 seeds that all arms of the effects have and all questions", "seeds and questions"),
    ],
)
def test_effects_name_the_seeds_that_they_are_over(made_up, all_runs, seeds, points, bars):
    study = made_up("four arms").study
    runs = [run for run in study.runs if all_runs or (run.arm, run.seed) != ("format_only", 1)]
    table = effect_table("main_effect", study.components).assign(seeds=seeds)
    written = " ".join(texts_of(effects(table, study.model_copy(update={"runs": runs}))))
    assert f"Points: {points}. Bars: 95 % intervals over {bars}" in written


def test_why_there_is_no_effect_is_said_in_words(made_up):
    study = made_up("four arms").study
    words = texts_of(effects(effect_table("main_effect", study.components).iloc[:0], study))
    assert any(text.startswith("no effects: the arms do not allow those of the study's design") for text in words)
    arms = {"full": {"a": 1.0, "b": 1.0}, "no_a": {"a": 0.0, "b": 1.0}, "no_b": {"a": 1.0, "b": 0.0}}
    content = MadeUpStudy(arms, seeds=(0, 1), layers=0).plan()
    content["runs"] = [run for run in content["runs"] if run["seed"] == (run["arm"] == "full")]
    none = effect_table("leave_one_out", ["a", "b"]).iloc[:0]
    assert "no effects: the arms have no seed in common" in texts_of(effects(none, StudyFile.model_validate(content)))


def test_the_primary_figure_of_a_sequential_study_has_repeated_intervals(made_up):
    given = made_up("four arms")
    plan = {"looks": [2, 3], "stop": "pocock", "margin": None, "level": 0.05, "question": "q", "evaluation": "e"}
    plan |= {"arms": {}, "declared": "2026-01-31T11:00:00Z", "runs_then": 0}
    look = Look(seeds=2, date="2026-01-31T12:00:00Z", contrasts=[], error_left=0.03)

    def note(taken: list[Look]) -> str:
        study = given.study.model_copy(update={"sequential": Sequential(**plan, taken=taken)})
        tables = given.tables["paired_differences"], given.tables["evaluation_by_arm"]
        return " ".join(texts_of(primary(*tables, study)))

    words = note([])
    assert "over seeds and questions, uncorrected." in words
    assert "Repeated confidence" not in words
    words = note([look])
    assert "Repeated confidence intervals at each contrast's last look, with its seeds. Points:" in words
    assert "over seeds and questions. Holm" in words
    assert "uncorrected" not in words


def test_names_of_levels_are_drawn_as_they_are_and_stay_distinct(made_up):
    given = made_up("four arms")
    names = ["cost $x_{1$ of $2", "代数", "几何"]
    row = {"arm": "format_only", "baseline": "correctness_only", "by": "subject", "questions": 10, "p_holm": 0.5}
    row |= {"estimate": 0.1, "low": 0.0, "high": 0.2, "from_rest": 0.0, "from_rest_low": -0.1, "from_rest_high": 0.1}
    figure = draw("by_level", [pd.DataFrame([row | {"group": name} for name in names])], given.study)
    with matplotlib.rc_context(STYLE):
        FigureCanvasAgg(figure).draw()  # not read as mathematics, which this is not
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()][1:]
    assert labels == ["subject cost $x_{1$ of $2: 10", r"subject \u4ee3\u6570: 10", r"subject \u51e0\u4f55: 10"]
