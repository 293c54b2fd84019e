"""Tables of the surface over the weights, from the table of runs of a study."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.surface.choice import choices
from reward_ablation.design.surface.tables import (
    SCHEMAS,
    arms_of_file,
    between,
    map_points,
    measured_arms,
    surface_tables,
)

from .surfaces import FIFTEEN, hill

NAMES = ["correctness", "format", "length", "random"]


def study_of(shares: np.ndarray, **changes) -> StudyFile:
    arms = {f"w{n}": dict(zip(NAMES, 2 * row, strict=False)) for n, row in enumerate(shares)}
    return StudyFile.model_validate(replace(MadeUpStudy(arms=arms, design="simplex"), **changes).plan())


def by_run(study: StudyFile, means: np.ndarray, spread: float = 0.01) -> pd.DataFrame:
    """Rows of evaluation_by_run: two seeds of each arm, half a spread above and below the arm's mean."""
    rows = [
        {"arm": arm, "seed": seed, "value": mean + (seed - 0.5) * spread}
        for arm, mean in zip(study.arm_names, means, strict=True)
        for seed in (0, 1)
    ]
    rows.append({"arm": "base", "seed": None, "value": 0.1})
    primary = study.primary
    place = {"dataset": primary.dataset, "mode": primary.mode, "metric": primary.metric}
    return pd.DataFrame(rows).assign(**place, questions=200)


def test_the_tables_of_a_study_on_a_hill():
    study = study_of(FIFTEEN)
    tables = surface_tables(study, by_run(study, hill(FIFTEEN)))
    assert {name: list(table.columns) for name, table in tables.items()} == {
        name: schema.names for name, schema in SCHEMAS.items()
    }
    surface, points = tables["weight_surface"], tables["weight_surface_points"]
    assert len(surface) == 231 + 15  # a grid of 20 intervals, and the arms
    assert len(points) == 3 * len(surface)
    np.testing.assert_allclose(points.groupby("point")["share"].sum(), 1)
    arms = surface[surface["arm"].notna()]
    np.testing.assert_allclose(arms["observed"], hill(FIFTEEN))
    assert (arms["low"] > arms["new_low"]).all()
    assert arms["improvement"].isna().all()
    assert surface["improvement"].isna().sum() == 15 + 15  # no arm is trained twice
    improving, unknown = choices(surface, points)
    assert np.abs(np.array(list(improving.shares.values())) - [0.55, 0.3, 0.15]).max() <= 0.1
    assert improving.low < improving.estimate < improving.high
    assert improving.weights(2.0) == pytest.approx({name: 2 * share for name, share in improving.shares.items()})
    width = (surface["high"] - surface["low"])[surface["improvement"].notna()]
    assert width.max() > 1.2 * width.median()
    [at] = surface.index[np.isclose(surface["estimate"], unknown.estimate) & surface["arm"].isna()]
    assert width[at] == width.max()


def test_the_spread_is_that_of_all_arms_but_of_arms_whose_seeds_differ_more():
    study = study_of(FIFTEEN)
    rows = by_run(study, np.full(15, 0.5), spread=0.02)
    rows.loc[rows["arm"] == "w3", "value"] = [0.3, 0.7]
    arms = measured_arms(study, rows, arms_of_file(study))
    # Around 0.5 the scale of comparison has a slope of 1: two values 0.02 apart have a deviation of 0.0141.
    assert arms.spread == pytest.approx(0.0141, rel=0.01)
    assert arms.spreads[3] == pytest.approx(0.4 / 2**0.5, rel=0.05)
    assert arms.spreads[[0, 14]].tolist() == [arms.spread] * 2


def test_arms_that_a_method_combines_or_that_are_a_control_are_left_out(capsys):
    study = study_of(FIFTEEN, methods={"w4": {"method": "upgrad"}}, control="w14")
    tables = surface_tables(study, by_run(study, hill(FIFTEEN)))
    assert "without w4, which differ" in capsys.readouterr().out
    assert set(study.arm_names) - set(tables["weight_surface"]["arm"].dropna()) == {"w4", "w14"}


@pytest.mark.parametrize(
    ("shares", "changes"),
    [
        (FIFTEEN[:7], {}),  # 8 are needed for three components
        (FIFTEEN, {"seeds": (0,)}),
        (FIFTEEN, {"design": "factorial"}),
        (-FIFTEEN, {}),
        (np.tile(FIFTEEN[4], (15, 1)) * np.arange(1, 16)[:, None], {}),  # one point: a common factor does not count
    ],
)
def test_a_study_without_enough_arms_has_empty_tables(shares, changes):
    study = study_of(shares, **changes)
    tables = surface_tables(study, by_run(study, np.full(len(shares), 0.5)))
    assert all(table.empty for table in tables.values())
    assert set(tables) == set(SCHEMAS)


def test_a_metric_that_is_better_low_has_its_best_arm_low():
    study = study_of(FIFTEEN)
    study = study.model_copy(update={"primary": study.primary.model_copy(update={"metric": "tokens"})})
    tables = surface_tables(study, by_run(study, 100 - 50 * hill(FIFTEEN)))
    improving, _ = choices(tables["weight_surface"], tables["weight_surface_points"])
    assert np.abs(np.array(list(improving.shares.values())) - [0.55, 0.3, 0.15]).max() <= 0.15


def test_no_arm_is_suggested_beyond_the_arms():
    """The metric rises towards the third component, which no arm rewards by more than half."""
    inner = np.concatenate([FIFTEEN * 0.25 + [0.5, 0.125, 0.125], [[0.25, 0.25, 0.5]]])
    study = study_of(inner)
    tables = surface_tables(study, by_run(study, 0.3 + 0.8 * inner[:, 2]))
    for choice in choices(tables["weight_surface"], tables["weight_surface_points"]):
        assert between(np.array([[*choice.shares.values()]]), inner).all()
    assert between(np.array([[0.4, 0.2, 0.4], [0.2, 0.2, 0.6], [0.5, 0.5, 0.0]]), inner).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("components", "points"), [(2, 101), (3, 231), (4, 455), (5, 495), (12, 364)])
def test_a_map_has_corners_and_at_most_a_thousand_points(components, points):
    grid = map_points(components)
    assert grid.shape == (points, components)
    assert len(np.unique(grid, axis=0)) == points
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    assert (grid.max(axis=1) == 1).sum() == components
