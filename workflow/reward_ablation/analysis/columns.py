"""Types of the columns of tables."""

from __future__ import annotations

import pyarrow as pa

TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

#: Columns of an estimate with its interval.
ESTIMATE = {"estimate": NUMBER, "low": NUMBER, "high": NUMBER, "seeds": COUNT, "questions": COUNT}


def columns(**types: pa.DataType) -> pa.Schema:
    """Columns of a table, in their order. Numbers may be null: some components cannot score some completions."""
    return pa.schema(types)
