"""Tables as CSV, written by Arrow.

A model or the author of a data set may have written any text, so an apostrophe stands before a cell that a spreadsheet
would run as a formula. The Parquet files have all texts as they are.
"""

from __future__ import annotations

import re
from typing import IO

import pyarrow as pa
import pyarrow.csv as pa_csv

#: Cells that spreadsheets may run, by OWASP's list, and also behind white space; but no numbers.
FORMULA = re.compile(
    r"(?![+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?%?\Z|[+-](inf|nan)\Z)"
    r"([\t\r\n]|[\s\0\ufeff\u200b]*[=+\-@＝＋－＠])",
    re.IGNORECASE,
)


def write_rows(table: pa.Table, file: IO[bytes], header: bool) -> None:
    """Write the rows of a table, each text in quotes and each null as an empty cell; first their names, if wanted."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            coded = column.dictionary_encode().unify_dictionaries().combine_chunks()
            texts = pa.array(map(_no_formula, coded.dictionary.to_pylist()), pa.large_string())
            table = table.set_column(place, name, texts.take(coded.indices))
    names = [_no_formula(name) for name in table.column_names]
    pa_csv.write_csv(table.rename_columns(names), file, pa_csv.WriteOptions(include_header=header))


def _no_formula(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) else text
