"""Raw rows of a local file or of the hub, as lists of dicts. A failure is an error of one line.

`sources` reads by it every set that is not generated, and `imported` takes its checks of columns and missing words. It
knows formats of files, and no data set.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.git_lfs import refuse_lfs_pointer
from reward_ablation.system.strict_text import DuplicateKey, load_json

if TYPE_CHECKING:
    import pyarrow as pa

Rows = list[dict[str, Any]]

#: Most characters of a cell of a CSV file. A program's unit tests may exceed Python's own limit of 131,072.
_LONGEST_CELL = 2**30
#: Words that pandas and spreadsheets write where a value is missing: pandas' own words (the default `na_values` of
#: `read_csv`), its words for a time and for infinity, the errors of spreadsheets, and dashes. Case counts: `none`,
#: `Infinity` and `Na` are what a person writes as an answer.
MISSING_WORDS = frozenset(
    (
        *("nan", "NaN", "-nan", "-NaN", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "inf", "-inf"),
        *("<NA>", "NA", "N/A", "n/a", "NaT", "None", "null", "NULL"),
        *("#N/A", "#N/A N/A", "#NA", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?", "#NULL!"),
        *("-", "--", "\u2013", "\u2014"),
    )
)


def read_file(path: str | Path) -> Rows:
    """Rows of a JSON (a list of objects), JSON Lines, CSV (all texts) or Parquet file, by the ending of its name."""
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        raise StudyError(f"{path}: cannot tell the format by its name; it must end in {', '.join(_READERS)}")
    try:
        refuse_lfs_pointer(path, str(path))
        rows = _READERS[path.suffix.lower()](path)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file; paths start at the folder that the workflow runs in") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not rows:
        raise StudyError(f"{path}: is empty; it needs at least one row")
    return rows


def _read_json(path: Path) -> Rows:
    rows = _parsed(path.read_text(encoding="utf-8-sig"), path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise StudyError(f"{path}: must hold a list of objects; with one object a line, call it .jsonl")
    return rows


def _read_json_lines(path: Path) -> Rows:
    rows = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = _parsed(line, path, number)
            if not isinstance(row, dict):
                raise StudyError(f"{path}: line {number}: must be an object with the columns as keys")
            rows.append(row)
    return rows


def _parsed(text: str, path: Path, line: int | None = None) -> Any:
    """The value of a JSON text. `line` is the text's line, if the text is only one line of the file."""
    try:
        return load_json(text, line or 1)
    except DuplicateKey as error:
        raise StudyError(f"{path}: {error}") from None
    except json.JSONDecodeError as error:
        raise StudyError(f"{path}: line {line or error.lineno}: not JSON ({error.msg})") from error
    except ValueError as error:
        raise StudyError(f"{path}: {f'line {line}: ' if line else ''}{error}") from None


def _read_csv(path: Path) -> Rows:
    csv.field_size_limit(_LONGEST_CELL)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        rows: Rows = []
        try:
            header = next(reader, [])
            refuse_twice(header, f"{path}: line 1")
            for row in reader:
                if row and len(row) != len(header):
                    raise StudyError(f"{path}: line {reader.line_num}: {len(row)} values for {len(header)} columns")
                if row:
                    rows.append(dict(zip(header, row, strict=True)))
        except csv.Error as error:
            raise StudyError(f"{path}: line {reader.line_num}: not CSV ({error})") from error
    return rows


def _read_parquet(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            refuse_fields_twice(pq.read_schema(file), path)
            table = pq.read_table(file)
        rows = table.to_pylist()
    except pa.ArrowException as error:
        raise StudyError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from error
    for field in table.schema:
        if "float" in str(field.type):  # Arrow's names are halffloat, float and double
            for row in rows:
                row[field.name] = _shortest(row[field.name], field.type)
    return rows


def _shortest(value: Any, kind: pa.DataType) -> Any:
    """A value of a column, with its narrow floats as doubles of the same shortest digits: 0.1, not 0.10000000149."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_float16(kind) or types.is_float32(kind):
        return float(str(kind.to_pandas_dtype()(value)))
    if types.is_struct(kind):
        return {field.name: _shortest(value[field.name], field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_shortest(item, kind.value_type) for item in value]
    return value


def refuse_twice(names: Iterable[str], where: str) -> None:
    """Refuse a column that occurs twice, of which a reader would take the last one."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise StudyError(f"{where}: column '{twice[0]}' occurs twice; rename one of the two, or take it out")


def refuse_fields_twice(schema: pa.Schema, path: Path) -> None:
    """Refuse a column, or a field of an object, that occurs twice. pyarrow gives another reason, or no reason."""
    levels: list[tuple[str, list[pa.Field]]] = [("", [*schema])]
    while levels:
        outer, fields = levels.pop()
        refuse_twice((outer + field.name for field in fields), str(path))
        for field in fields:
            levels.append((f"{outer}{field.name}.", [field.type.field(i) for i in range(field.type.num_fields)]))


_READERS = {
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


def read_hub(repository: str, config: str, split: str, revision: str) -> Rows:
    """Rows of one split of a data set on the hub, at one commit."""
    from datasets import load_dataset

    where = f"{repository} at {revision}"
    try:
        dataset = load_dataset(repository, config, split=split, revision=revision)
    except Exception as error:  # datasets raises more than a dozen kinds
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise StudyError(
            f"{where}: cannot be loaded: {reason.rstrip('.')}; check the revision, the network and HF_ENDPOINT, "
            "or give a local copy with path"
        ) from error
    # If the hub cannot be reached, datasets falls back on the newest cached commit, even if another was asked for.
    cached = {Path(file["filename"]).parent.name for file in dataset.cache_files}
    if cached - {revision}:
        raise StudyError(f"{where}: the hub cannot be reached and the cache holds another commit; check the network")
    return dataset.to_list()


def missing_word(value: Any) -> str | None:
    """The word for a missing value that a text, or an infinite number, consists of; None for any other value."""
    text = str(value).strip() if isinstance(value, str | float) else ""
    # NaN as a number is no word: every column takes it as missing.
    return text if text in MISSING_WORDS and value == value else None
