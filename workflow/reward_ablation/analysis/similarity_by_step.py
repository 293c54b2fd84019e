"""Similarity of the components' gradients over the steps of a run."""

from __future__ import annotations

import pandas as pd


def similarity_by_step(gradients: pd.DataFrame) -> pd.DataFrame:
    """Cosine and inner product of each pair of different components, by step and layer.

    Parameters
    ----------
    gradients : DataFrame
        Entries of the Gram matrices; those of a component with itself and those of other
        definitions than "alone" (the gradient of the component as the only reward) are left out.

    Returns
    -------
    Rows (step, layer, component_a, component_b) in their order in the run, which is that of the
    model's layers. `cosine` is null where a gradient is zero and has no direction.
    """
    pairs = (gradients["component_a"] != gradients["component_b"]) & (gradients["definition"] == "alone")
    return gradients.loc[pairs, ["step", "layer", "component_a", "component_b", "cosine", "dot"]]
