"""Reading files from elsewhere, and nothing executed: lines and whole JSON files up to a size, Parquet by row group.

The readers find their files by `found` and `parts`, and read them here, but for CSV and zip files. Files from elsewhere
may be damaged or hostile, and are bounded here.
"""

from __future__ import annotations

import filecmp
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reward_ablation.data.reading import refuse_fields_twice
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.strict_text import load_json

#: Longest line of a file of lines, and largest JSON file that is read as a whole, in bytes.
LONGEST_LINE, LARGEST_OBJECT = 16 << 20, 256 << 20


def found(path: Path, *patterns: str) -> list[Path]:
    """The files that a path names: itself, or the files of a folder that match a pattern, sorted by name."""
    # Links below a folder are not followed: a folder from elsewhere may link to any file of this machine, and
    # `results.stamps` does not see a change there.
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise StudyError(f"{path}: no such file or folder; name the files of the run")
    files = sorted({file for pattern in patterns for file in path.glob(pattern)})
    files = [file for file in files if file.is_file() and file.resolve() == path.resolve() / file.relative_to(path)]
    if not files:
        raise StudyError(
            f"{path}: no {' or '.join(patterns)} in it, links left out; name the folder that has these files"
        )
    return files


def parts(path: Path, *patterns: str) -> list[Path]:
    """The files that a path names, which hold one run together; two of the same content are refused."""
    sizes: dict[int, Path] = {}
    for file in (files := found(path, *patterns)):
        other = sizes.setdefault(file.stat().st_size, file)
        if other != file and file.stat().st_size and filecmp.cmp(other, file, shallow=False):
            raise StudyError(f"{file}: the same content as {other}; take one of the two out")
    return files


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file with the numbers of their lines; empty lines are left out."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise StudyError(
                    f"{path}: line {number} has more than {LONGEST_LINE >> 20} MB; split it or take it out"
                )
            if line.strip():
                yield number, _object(line, f"{path}: line {number}", number)


def json_object(path: Path) -> dict[str, Any]:
    """The object of a JSON file."""
    if path.stat().st_size > LARGEST_OBJECT:
        raise StudyError(f"{path}: more than {LARGEST_OBJECT >> 20} MB in one JSON value; export it as lines")
    return _object(path.read_bytes(), str(path), 1)


def _object(text: bytes, where: str, line: int) -> dict[str, Any]:
    try:
        value = load_json(text, line)
    except (ValueError, json.JSONDecodeError) as error:
        raise StudyError(f"{where}: not JSON: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise StudyError(f"{where}: a {type(value).__name__}, not an object; each row is an object of JSON")
    return value


def parquet_batches(path: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The row groups of a Parquet file, one in memory at a time. `columns` must all be there; None means all."""
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            refuse_fields_twice(file.schema_arrow, path)
            if absent := [name for name in columns or [] if name not in names]:
                raise StudyError(f"{path}: no column {absent[0]!r}; columns here: {', '.join(names)}")
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise StudyError(f"{path}: not a readable Parquet file: {first_line(error)}") from None


def without_nan(table: pa.Table) -> pa.Table:
    """A table whose NaN are null: pandas and TRL write them where there is no score."""
    for index, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(index)
            table = table.set_column(index, field, pc.if_else(pc.is_nan(column), pa.scalar(None, field.type), column))
    return table


def number(value: Any, where: str) -> float:
    """A score as a double; None becomes NaN, "no score", and a truth value 0 or 1. NaN and infinity are refused."""
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    raise StudyError(f"{where} is {value!r}, not a finite number; correct it, or leave it empty for no score")


def text(value: Any, where: str) -> str:
    """A text. Anything else is refused."""
    if isinstance(value, str):
        return value
    raise StudyError(f"{where} is a {type(value).__name__}, not a text")
