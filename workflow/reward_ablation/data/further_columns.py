"""Columns of a prepared set besides those that every set has: all rows decide a type; lists and objects become JSON.

`problems` decides the types by it when it writes a set, and `sources` turns the texts of a CSV file into values.
Reward functions and metrics get these columns (`rewards.columns`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.data.reading import Rows
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

if TYPE_CHECKING:
    import pyarrow as pa

#: Most levels of nested lists and objects. JSON is read by recursion, so deeper nesting could not be read everywhere.
DEEPEST = 100

_INT64 = range(-(2**63), 2**63)


def typed_column(rows: Rows, name: str, where: str) -> pa.Field:
    """Decide the type of a further column, and convert its values in `rows` in place. None and NaN become null."""
    # Texts, whole numbers of 64 bits and numbers that 64-bit floats hold exactly keep their type; the rest becomes
    # JSON.
    import pyarrow as pa

    from reward_ablation.rewards.columns import JSON_FIELD  # late: its package imports the grader

    values = [None if _is_nan(row.get(name)) else _number(row.get(name)) for row in rows]
    known = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in known):
        field = pa.field(name, pa.string())
    elif all(type(value) is int and value in _INT64 for value in known):
        field = pa.field(name, pa.int64())
    elif all(_is_float(value) for value in known):
        field = pa.field(name, pa.float64())
        values = [None if value is None else float(value) for value in values]
    else:
        field = pa.field(name, pa.string(), metadata=JSON_FIELD)
        values = [_as_json(value, f"{where}: {row['id']}: {name}") for row, value in zip(rows, values, strict=True)]
    for row, value in zip(rows, values, strict=True):
        row[name] = value
    return field


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _number(value: Any) -> Any:
    """A decimal as a whole number or a float, any other value as it is."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value.as_integer_ratio()[1] == 1 else float(value)


def _is_float(value: Any) -> bool:
    """Whether a value is a number that a 64-bit float holds exactly."""
    if type(value) is int:
        return abs(value) <= 2**53
    return isinstance(value, float)


def _as_json(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if _deeper_than(value, DEEPEST):
        raise StudyError(f"{where}: lists and objects nested deeper than {DEEPEST} levels; flatten them")

    def number(part: Any) -> Any:
        if isinstance(part, Decimal):
            return _number(part)
        raise StudyError(
            f"{where} holds a {type(part).__name__}; it must be text, a number, true, false, a list or an object"
        )

    # Without escapes, so that half of a surrogate pair is refused when the table is made.
    return json.dumps(value, ensure_ascii=False, default=number)


def _deeper_than(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than a number of levels, found without recursion."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [part for part in layer if isinstance(part, list | dict | tuple)]
        if not layer:
            return False
        layer = [part for outer in layer for part in _parts(outer)]
    return True


def _parts(value: Any) -> Sequence[Any]:
    return [*value.values()] if isinstance(value, dict) else value


def from_csv(rows: Rows, names: Sequence[str], where: str) -> None:
    """Convert columns of a CSV file in place where all texts are lists, objects or numbers in JSON; empty is null."""
    # Any other column stays text, such as a column with 007.
    for name in names:
        cells = [_json_or_none(row[name]) if row[name].strip() else None for row in rows]
        if any(cell is not None for cell in cells) and all(
            (cell is None) == (not row[name].strip()) for row, cell in zip(rows, cells, strict=True)
        ):
            for index, (row, cell) in enumerate(zip(rows, cells, strict=True)):
                if isinstance(cell, list | dict):
                    _refuse_twice(row[name], f"{where} row {index}: {name}")
                row[name] = cell


def _refuse_twice(text: str, where: str) -> None:
    try:
        load_json(text)
    except ValueError as error:
        raise StudyError(f"{where}: {error}") from None


def _json_or_none(text: str) -> Any:
    """A list, an object or a number in JSON; None for any other text."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) or type(value) in (int, float) else None


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are words in a CSV file


def is_csv(path: str) -> bool:
    """Whether a file is read as CSV."""
    return Path(path).suffix.lower() == ".csv"
