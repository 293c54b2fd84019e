"""Similarity of the components' gradients over the steps of a run."""

from __future__ import annotations

import pandas as pd

from reward_ablation.analysis.gradients.schemas import SCHEMAS

#: Columns of a run's gradients that the table has too.
GRADIENT_COLUMNS = [name for name in SCHEMAS["similarity_by_step"].names if name not in ("arm", "seed")]

#: Those that runs of earlier versions do not have; their values are null.
LATER_COLUMNS = ["folding_error"]


def similarity_by_step(gradients: pd.DataFrame) -> pd.DataFrame:
    """Similarity of each pair of different gradients, by step, layer and definition.

    Parameters
    ----------
    gradients : DataFrame
        `GRADIENT_COLUMNS`. Pairs of a component with itself are left out.

    Returns
    -------
    Rows (step, layer, definition, component_a, component_b) in their order in the run, which is that of the
    model's layers. `cosine`, its parts and its interval are null where a gradient is zero and has no direction.
    """
    return gradients.loc[gradients["component_a"] != gradients["component_b"], GRADIENT_COLUMNS]
