"""Choice of the next arm: the point of the map with the largest expected improvement, or with the longest interval."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Choice:
    """A point of the map that is suggested as the next arm.

    Attributes
    ----------
    shares : dict of str to float
        Share of each component in the weights.
    estimate, low, high : float
        Predicted metric, and interval of the measured metric of a new arm there.
    improvement : float
        Expected improvement of the metric over the best arm.
    seeds : int
        Seeds of the new arm.
    """

    shares: dict[str, float]
    estimate: float
    low: float
    high: float
    improvement: float
    seeds: int

    def weights(self, total: float) -> dict[str, float]:
        """Weights with the sum `total`, of the components with a share above 0."""
        return {name: float(f"{share * total:.4g}") for name, share in self.shares.items() if share > 0}


def choices(surface: pd.DataFrame, points: pd.DataFrame) -> tuple[Choice, Choice]:
    """The points with the largest expected improvement and with the longest interval.

    Points without an expected improvement are left out.

    Parameters
    ----------
    surface, points : DataFrame
        Tables `weight_surface` and `weight_surface_points`.
    """
    candidates = surface[surface["improvement"].notna()]
    length = candidates["high"] - candidates["low"]
    best, widest = (candidates.iloc[int(values.argmax())] for values in (candidates["improvement"], length))
    return choice_of(best, points), choice_of(widest, points)


def choice_of(row: pd.Series, points: pd.DataFrame) -> Choice:
    """The point in a row of `weight_surface`, with its shares."""
    of_point = points[points["point"] == row["point"]]
    shares = dict(zip(of_point["component"].astype(str), of_point["share"].astype(float), strict=True))
    estimate, low, high, improvement = row[["estimate", "new_low", "new_high", "improvement"]].to_numpy(dtype=float)
    return Choice(shares, estimate, low, high, improvement, int(row["seeds"]))
