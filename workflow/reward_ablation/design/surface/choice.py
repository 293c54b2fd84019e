"""The next arm: the point of the map with the largest expected improvement, or with the widest interval."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Choice:
    """A point of the map.

    Attributes
    ----------
    shares : dict of str to float
        By component.
    estimate, low, high : float
        Predicted metric, and the interval of what an arm with `seeds` seeds would show there.
    improvement : float
        Expected improvement of the metric over the best arm.
    """

    shares: dict[str, float]
    estimate: float
    low: float
    high: float
    improvement: float
    seeds: int

    def weights(self, total: float) -> dict[str, float]:
        """Weights with this sum, of the components that have a share."""
        return {name: float(f"{share * total:.4g}") for name, share in self.shares.items() if share > 0}


def choices(surface: pd.DataFrame, points: pd.DataFrame) -> tuple[Choice, Choice]:
    """The best points of the tables `weight_surface` and `weight_surface_points`: by improvement, and by uncertainty.

    Points without an expected improvement are left out.
    """
    free = surface[surface["improvement"].notna()]
    width = free["high"] - free["low"]
    best, widest = (free.iloc[int(values.argmax())] for values in (free["improvement"], width))
    return choice_of(best, points), choice_of(widest, points)


def choice_of(row: pd.Series, points: pd.DataFrame) -> Choice:
    """A row of `weight_surface` with its shares."""
    of_point = points[points["point"] == row["point"]]
    shares = dict(zip(of_point["component"].astype(str), of_point["share"].astype(float), strict=True))
    estimate, low, high, improvement = row[["estimate", "new_low", "new_high", "improvement"]].to_numpy(dtype=float)
    return Choice(shares, estimate, low, high, improvement, int(row["seeds"]))
