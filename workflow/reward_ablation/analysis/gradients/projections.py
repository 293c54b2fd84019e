"""Gradients of different steps, seeds and arms compared, by their projections.

A projection keeps inner products up to an error that its size decides, and is the same in every run of a study. So
seed 1's format gradient at step 50 can be compared with seed 2's::

    projected_cosine(runs / "equal-1a2b3c4d/seed1", 50, runs / "equal-1a2b3c4d/seed2", 50)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.gram.similarity import ALL_LAYERS
from reward_ablation.gram.store import read_projections
from reward_ablation.system.errors import StudyError

#: Columns that identify a projected gradient within a step.
GRADIENT = ["definition", "component", "layer"]


def projected_cosine(first: str | Path, first_step: int, second: str | Path, second_step: int) -> pd.DataFrame:
    """Cosines between the gradients of two measured steps, of one run or of two runs of a study.

    Parameters
    ----------
    first, second : str or Path
        Folders of runs; the same folder to compare steps of one run.

    Returns
    -------
    Rows (definition, component, layer) that both steps have, in the first's order with layer `all` before the others;
    columns cosine and standard_error, null where one of the gradients is zero.

    The standard error is that of projecting alone, to first order and for a gradient spread over many parameters:
    (1 - cosine^2) / sqrt(D) in one layer, for projections of D numbers. Errors are up to half as large again, and up to
    twice as large in tiny models, since units of a layer are added up before (measured on SmolLM2-135M and smaller).
    The noise of a step's rollouts, which draws cosines of different steps towards 0, is not part of it.

    Raises
    ------
    StudyError
        A step was not measured, or the two runs' projections differ in size.
    """
    tables = [read_projections(Path(folder), step) for folder, step in ((first, first_step), (second, second_step))]
    sizes = {len(direction) for table in tables for direction in table["direction"] if len(direction)}
    if len(sizes) > 1:
        raise StudyError(
            f"{first}, {second}: projections of {min(sizes)} and of {max(sizes)} numbers; compare runs of one study"
        )
    dimensions = max(sizes, default=1)
    both = tables[0].merge(tables[1], on=GRADIENT, suffixes=("_a", "_b"), sort=False)
    norm_a, norm_b = both["norm_a"].astype(float), both["norm_b"].astype(float)
    directions = zip(both["direction_a"], both["direction_b"], strict=True)
    cosines = [float(a @ b) if len(a) and len(b) else 0.0 for a, b in directions]
    both = both.assign(dot=norm_a * norm_b * cosines, square_a=norm_a**2, square_b=norm_b**2)
    rows = []
    for labels, layers in both.groupby(GRADIENT[:2], sort=False):
        products = layers[["dot", "square_a", "square_b"]].to_numpy().T
        rows.append((*labels, ALL_LAYERS, *cosine_of_layers(products, dimensions)))
        for place, layer in enumerate(layers["layer"]):
            rows.append((*labels, layer, *cosine_of_layers(products[:, [place]], dimensions)))
    return pd.DataFrame(rows, columns=[*GRADIENT, "cosine", "standard_error"])


def cosine_of_layers(products: np.ndarray, dimensions: int) -> tuple[float, float]:
    """Cosine over some layers of two projected gradients and its standard error; NaN where a gradient is zero.

    Layers are projected apart, to `dimensions` numbers each. The numbers of one layer's two projections are about
    independent pairs from a normal distribution, whose covariance the gradients have: the error follows by the delta
    method, and is that of a correlation coefficient where there is one layer. `products` is a (3, L) array: inner
    product of the two projections and their squared norms, by layer.
    """
    dots, squares_a, squares_b = products
    norm_a, norm_b = np.sqrt(squares_a.sum()), np.sqrt(squares_b.sum())
    if norm_a == 0 or norm_b == 0:
        return float("nan"), float("nan")
    share_a, share_b, share = squares_a / norm_a**2, squares_b / norm_b**2, dots / (norm_a * norm_b)
    cosine = share.sum()
    variances = (
        share_a * share_b
        + share**2
        + cosine**2 / 2 * (share_a**2 + share_b**2 + 2 * share**2)
        - 2 * cosine * share * (share_a + share_b)
    )
    error = np.sqrt(max(0.0, variances.sum()) / dimensions)
    return float(np.clip(cosine, -1, 1)), float(error)
