"""Decisions of a sequential study in the table of differences, from the last look at each contrast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reward_ablation.analysis.study_file import StudyFile

#: Columns of the table that come from the record of a look.
OF_LOOK = ["estimate", "low", "high", "p", "p_holm", "decision"]


def with_decisions(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Differences of one data set; the primary ones get repeated intervals and p-values that are corrected for looks.

    Other rows, and all rows of a study with a list of seeds, have no decision. The test of equivalence does not hold
    for several looks: a sequential study has its decision instead.
    """
    table = table.assign(decision=pd.Series(None, index=table.index, dtype=object))
    record = study.sequential
    if record is None or not record.in_force:
        return table
    for contrast in study.primary.contrasts:
        if last_look := record.decision(contrast):
            look, at_look = last_look
            rows = (table["arm"] == contrast.arm) & (table["baseline"] == contrast.against)
            rows &= table["family"] == "primary"
            for column in OF_LOOK:
                table.loc[rows, column] = getattr(at_look, column)
            table.loc[rows, "seeds"] = look.seeds
            table.loc[rows, "p_equivalent"] = np.nan
    return table
