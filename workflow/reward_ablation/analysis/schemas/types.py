"""Types of columns."""

from __future__ import annotations

import pyarrow as pa

TEXT, COUNT, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

ESTIMATE = {"estimate": NUMBER, "low": NUMBER, "high": NUMBER, "seeds": COUNT, "questions": COUNT}
