"""Tables of the surface over the weights: the points of the map, the arms, and the check."""

from __future__ import annotations

from math import comb

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.seed_means import seed_means
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import COUNT, FLAG, NUMBER, TEXT, columns
from reward_ablation.design.surface.arms import arms_of_file
from reward_ablation.design.surface.check import LeftOut, check_table, predict_left_out
from reward_ablation.design.surface.model import MeasuredArms, Prediction, Scale, Surface
from reward_ablation.study.weight_surface import SurfaceArms

SCHEMAS = {
    # A row is a point of the map or an arm. low, high: interval of the expected metric. new_low, new_high: interval of
    # the measured metric of a new arm with these weights. improvement: expected improvement over the best arm, only for
    # points between the arms. left_out: prediction of an arm from the other arms, with its interval.
    "weight_surface": columns(
        (COUNT, "point"),
        (TEXT, "arm"),
        (NUMBER, "observed estimate low high new_low new_high improvement left_out left_out_low left_out_high"),
        (COUNT, "seeds"),
    ),
    "weight_surface_points": columns((COUNT, "point"), (TEXT, "component"), (NUMBER, "share")),
    "weight_surface_check": columns(
        (TEXT, "rule"),
        (COUNT, "arms"),
        (NUMBER, "error surface_error coverage"),
        (TEXT, "picked"),
        (NUMBER, "regret"),
        (FLAG, "ahead"),
    ),
}

#: Numbers of intervals along an edge of the map among which `map_points` chooses, and the most points of a map.
EDGES, MOST_POINTS = (100, 20, 12, 8, 6, 5, 4, 3, 2), 1000


def surface_tables(study: StudyFile, by_run: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Make the tables of `SCHEMAS` for the study's primary metric. They are empty if the study has too few arms.

    Parameters
    ----------
    by_run : DataFrame
        The table `evaluation_by_run`.
    """
    chosen = arms_of_file(study)
    arms = None if chosen is None else measured_arms(study, by_run, chosen)
    if chosen is None or arms is None:
        print("weight_surface: too few arms that differ in their weights alone")
        return {name: pd.DataFrame(columns=schema.names) for name, schema in SCHEMAS.items()}
    if chosen.left_out:
        print(f"weight_surface: without {', '.join(chosen.left_out)}, which differ in more than fixed weights")
    better_high = study.primary_is_better_high
    surface = Surface(arms)
    of_others = predict_left_out(surface, study.confidence)
    grid = map_points(len(chosen.components))
    table = pd.concat(
        [
            map_rows(surface, grid, study.confidence, better_high),
            arm_rows(surface, of_others, study.confidence).assign(point=range(len(grid), len(grid) + len(arms.names))),
        ],
        ignore_index=True,
    ).reindex(columns=SCHEMAS["weight_surface"].names)
    points = np.concatenate([grid, arms.shares])
    return {
        "weight_surface": table,
        "weight_surface_points": pd.DataFrame(
            {
                "point": np.repeat(np.arange(len(points)), len(chosen.components)),
                "component": np.tile(chosen.components, len(points)),
                "share": points.ravel(),
            }
        ),
        "weight_surface_check": check_table(arms, of_others, better_high),
    }


def measured_arms(study: StudyFile, by_run: pd.DataFrame, chosen: SurfaceArms) -> MeasuredArms | None:
    """Primary metric of the chosen arms; None if too few seeds have a value to estimate how much seeds differ.

    The standard deviation between seeds is estimated from all arms together, because two seeds of one arm say little.
    An arm whose seeds clearly differ more has its own.
    """
    primary = study.primary
    of_metric = (by_run["dataset"] == primary.dataset) & (by_run["metric"] == primary.metric)
    rows = by_run[of_metric & by_run["value"].notna()]
    means: SeedMeans | None = seed_means(rows, study).get(primary.mode)
    if means is None:
        return None
    kept = np.array([arm in chosen.shares for arm in means.arms]) & means.known.any(axis=1)
    shared = kept & ~means.flagged[0]
    degrees = int(means.degrees[shared].sum())
    if degrees == 0:
        return None
    spread = float(np.sqrt(means.squares[0][shared].sum() / degrees))
    own = np.sqrt(means.squares[0] / np.maximum(means.degrees, 1))
    names = [arm for arm, keep in zip(means.arms, kept, strict=True) if keep]
    return MeasuredArms(
        names=names,
        shares=np.array([chosen.shares[arm] for arm in names]),
        means=np.nanmean(means.values[0][kept], axis=1),
        seeds=means.known.sum(axis=1)[kept],
        spreads=np.where(means.flagged[0], np.maximum(own, spread), spread)[kept],
        spread=spread,
        scale=Scale(metrics_of_study(study).limits(primary.metric), means.questions),
    )


def map_points(components: int) -> np.ndarray:
    """(P, components) array: a grid of shares with at most `MOST_POINTS` points, also on the edges of the simplex."""
    edge = next((edge for edge in EDGES if comb(edge + components - 1, components - 1) <= MOST_POINTS), 1)
    return compositions(edge, components) / edge


def compositions(total: int, parts: int) -> np.ndarray:
    """Rows of all ways to write `total` as an ordered sum of `parts` integers of at least 0, first part descending."""
    if parts == 1:
        return np.array([[total]])
    rest = [compositions(total - first, parts - 1) for first in range(total, -1, -1)]
    return np.concatenate([np.insert(rows, 0, total - rows[0].sum(), axis=1) for rows in rest])


def map_rows(surface: Surface, grid: np.ndarray, confidence: float, better_high: bool) -> pd.DataFrame:
    """Rows of the points of the map.

    A point has no expected improvement if an arm is at this point, or if the point is not between the arms. Beyond the
    arms nothing checks the surface: if every arm rewards a component, no arm may be able to do without it.
    """
    arms = surface.arms
    of_arms, of_map = surface.predict(arms.shares).estimate, surface.predict(grid)
    improvement = of_map.improvement(float(of_arms.max() if better_high else of_arms.min()), better_high)
    trained = np.any(np.all(np.isclose(grid[:, None], arms.shares, atol=1e-6), axis=2), axis=1)
    seeds = int(arms.seeds.max())
    values = predicted_columns(of_map, of_map.of_new_arms(arms.spread, seeds), confidence)
    return pd.DataFrame({"point": range(len(grid)), **values, "seeds": seeds}).assign(
        improvement=np.where(trained | ~between(grid, arms.shares), np.nan, improvement)
    )


def between(points: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(P,) array of bool: whether each point is in the convex hull of the arms' shares."""
    return np.array([nnls(shares.T, point)[1] < 1e-6 for point in points])


def arm_rows(surface: Surface, of_others: LeftOut, confidence: float) -> pd.DataFrame:
    """Rows of the arms: measured metric, surface at their shares, and prediction from the other arms."""
    arms, expected = surface.arms, surface.predict(surface.arms.shares)
    values = predicted_columns(expected, expected.of_new_arms(arms.spread, int(arms.seeds.max())), confidence)
    others = {
        "left_out": of_others.predicted["surface"],
        "left_out_low": of_others.low,
        "left_out_high": of_others.high,
    }
    return pd.DataFrame({"arm": arms.names, "observed": arms.means, **values, **others, "seeds": arms.seeds})


def predicted_columns(expected: Prediction, new: Prediction, confidence: float) -> dict[str, np.ndarray]:
    """Columns of estimates with intervals of the expected metric, and intervals of the measured metric of a new arm."""
    low, high = expected.interval(confidence)
    new_low, new_high = new.interval(confidence)
    return {"estimate": expected.estimate, "low": low, "high": high, "new_low": new_low, "new_high": new_high}
