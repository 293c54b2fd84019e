"""The gap between what vLLM sampled by and what is trained, by length: no correction may favour short completions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

#: Lengths are told apart by quarters of the longest that a completion may have.
QUARTERS = 4


def sampling_gaps(rollouts: pd.DataFrame, longest: int) -> pd.DataFrame:
    """Gap and share of corrected tokens of one run's completions, by length.

    Parameters
    ----------
    rollouts : DataFrame
        tokens; sampling_gap, in nats a token, and sampling_corrected, null where transformers generated.
    longest : int
        Tokens that a completion may have.

    Returns
    -------
    DataFrame
        Rows with completions of more than `over` and at most `up_to` tokens: their number, means over their tokens of
        the `gap` and of what is `corrected`. Empty where vLLM generated none.
    """
    sampled = rollouts[rollouts["sampling_gap"].notna()]
    edges = np.ceil(np.linspace(0, longest, QUARTERS + 1)).astype(int)
    rows = []
    for over, up_to in pairwise(edges):
        some = sampled[sampled["tokens"].between(over + 1, up_to)]
        if len(some):
            means = {
                name: np.average(some[f"sampling_{name}"].astype(float), weights=some["tokens"])
                for name in ("gap", "corrected")
            }
            rows.append({"over": over, "up_to": up_to, "completions": len(some), **means})
    return pd.DataFrame(rows)
