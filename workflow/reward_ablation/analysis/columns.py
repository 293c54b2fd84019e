"""Types of the columns of tables."""

from __future__ import annotations

import pyarrow as pa

TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

#: Columns of an estimate with its interval.
ESTIMATE = ((NUMBER, "estimate low high"), (COUNT, "seeds questions"))


def columns(*groups: tuple[pa.DataType, str]) -> pa.Schema:
    """Columns of a table in their order, as groups of one type. Numbers may be null, as some cannot be known.

    >>> columns((TEXT, "arm"), (COUNT, "seed step")).names
    ['arm', 'seed', 'step']
    """
    return pa.schema([(name, kind) for kind, names in groups for name in names.split()])
