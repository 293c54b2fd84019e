"""Columns of the data besides those of every set: which hold JSON texts, and how reward functions get the values.

A prepared set is a Parquet file, in which a list or an object of the user's data is a JSON text. Training, the rule
`score`, `plan --adopt` and the call of users' rewards before the first job read such columns here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: Metadata of a field whose texts are JSON. JSON is used because an Arrow struct would add null keys to objects that
#: lack them.
JSON_FIELD = {b"content": b"json"}


def json_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Names of the columns of a prepared set that hold JSON texts."""
    return tuple(field.name for field in schema if field.metadata == JSON_FIELD)


def decoded(texts: list[str | None]) -> list[Any]:
    """Values of a column of JSON texts. Each value is a new object; a missing text gives None."""
    return [None if text is None else json.loads(text) for text in texts]


def with_values(function: Callable, columns: Collection[str]) -> Callable:
    """Wrap a reward function, so that its columns of JSON texts are decoded at each call, as values of its own."""
    if not columns:
        return function

    @wraps(function)
    def call(completions: list, **given: Any) -> Any:
        values = {name: decoded(column) if name in columns else column for name, column in given.items()}
        return function(completions=completions, **values)

    return call
