"""Values of a column, or of a field inside a column, such as `reward_model.ground_truth` or `prompt.0.content`."""

from __future__ import annotations

import re
from typing import Any

from reward_ablation.data.reading import Rows
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import DuplicateKey, load_json


def column_values(rows: Rows, name: str, where: str) -> list[Any] | None:
    """Values of a column of a file, one a row; None if no row has the column. `where` names the file in messages.

    A column with exactly this name goes first. Otherwise the dots of the name lead into objects, by key, and into
    lists, by position from 0, or from -1 backwards. A text on the way is read as JSON. A value is None if its row lacks
    the field.

    Raises StudyError if the column exists but no row has the field in it, or if a row has a value on the way that has
    no fields.
    """
    reached, *parts = [name] if any(name in row for row in rows) else name.split(".")
    if not any(reached in row for row in rows):
        return None
    values = [row.get(reached) for row in rows]
    for part in parts:
        outer = [_opened(value, f"{where} row {index}: '{reached}'") for index, value in enumerate(values)]
        if not any(_has(value, part) for value in outer):
            fields = dict.fromkeys(str(key) for value in outer if isinstance(value, dict) for key in value)
            here = f"fields here: {', '.join(fields)}" if fields else "a list has positions, from 0"
            raise StudyError(f"{where}: '{reached}' has no field '{part}', which '{name}' asks for; {here}")
        values = [_field(value, part) for value in outer]
        reached = f"{reached}.{part}"
    return values


def _opened(value: Any, where: str) -> Any:
    """An object or a list, or that of a JSON text; None where there is no value."""
    if isinstance(value, str) and value.strip():
        try:
            value = load_json(value)
        except DuplicateKey as error:
            raise StudyError(f"{where}: {error}") from None
        except ValueError:
            raise StudyError(f"{where} is a text and not JSON, so that it has no fields") from None
    if value is None or value == "" or value != value or isinstance(value, dict | list):
        return value if isinstance(value, dict | list) else None
    raise StudyError(f"{where} is of type {type(value).__name__} and has no fields")


def _has(value: Any, part: str) -> bool:
    if isinstance(value, list):
        return re.fullmatch(r"-?\d{1,9}", part) is not None and -len(value) <= int(part) < len(value)
    return value is not None and part in value


def _field(value: Any, part: str) -> Any:
    if not _has(value, part):
        return None
    return value[int(part)] if isinstance(value, list) else value[part]
