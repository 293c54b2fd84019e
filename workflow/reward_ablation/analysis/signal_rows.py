"""Signals of the steps of a run as rows of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd


def signal_rows(signals: pd.DataFrame) -> pd.DataFrame:
    """Rows (step, quantity, component, value), by step; component is null for a signal of all components.

    Parameters
    ----------
    signals : DataFrame
        A row per step; columns (quantity, component), with component "" for all components.
    """
    labels = signals.columns.to_frame(index=False)
    rows, columns = signals.shape
    return pd.DataFrame(
        {
            "step": np.repeat(signals.index.to_numpy(), columns),
            "quantity": np.tile(labels["quantity"].to_numpy(), rows),
            "component": np.tile(labels["component"].where(labels["component"] != "", None).to_numpy(), rows),
            "value": signals.to_numpy().ravel(),
        }
    )
