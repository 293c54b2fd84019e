"""Further columns, from a file of any format to the values that components receive."""

from __future__ import annotations

import csv
import io
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.config.sections.data import FileData, further_columns
from reward_ablation.data.prepared import further_columns_of, read_prepared
from reward_ablation.data.problems import PrepareSpec, prepare, schema
from reward_ablation.rewards.columns import json_columns
from reward_ablation.system.errors import StudyError

ROWS = [
    {
        "question": "x?",
        "answer": "1",
        "tests": ["assert f(1) == 1", "assert f(2) == 2"],
        "about": {"kind": "sum", "of": {"a": None, "b": [1, {"c": 2.5}]}},
        "hint": "an\n\"egg\", 'so'",
        "points": 3,
        "weight": 0.5,
    },
    {"question": "y?", "answer": "2", "tests": [], "about": {"other": True}, "hint": None, "points": None, "weight": 2},
]
NAMES = ("about", "hint", "points", "tests", "weight")


def columns_of(names=NAMES) -> dict[str, str]:
    return {name: name for name in names}


def as_csv(rows) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]])
    writer.writeheader()
    for row in rows:
        cells = {key: json.dumps(value) if isinstance(value, list | dict) else value for key, value in row.items()}
        writer.writerow(cells)
    return text.getvalue().encode()


def prepared(tmp_path, content: bytes, ending: str, columns, **switches):
    file, output = tmp_path / f"mine{ending}", tmp_path / "out.parquet"
    file.write_bytes(content)
    source = {"source": "file", "path": str(file), "columns": columns}
    prepare(PrepareSpec.model_validate({"source": source, **switches}), "mine", output)
    return output


def of_lines(tmp_path, rows, columns=None, **switches):
    content = "\n".join(json.dumps(row) for row in rows).encode()
    columns = columns if columns is not None else columns_of([name for name in rows[0] if name not in schema().names])
    return prepared(tmp_path, content, ".jsonl", columns, **switches)


def values_of(path, name) -> list:
    return read_prepared(path)[name].tolist()


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv"])
def test_values_come_back_as_they_were(tmp_path, ending):
    content = {
        ".json": json.dumps(ROWS).encode(),
        ".jsonl": "\n".join(json.dumps(row) for row in ROWS).encode(),
        ".csv": as_csv([row | {"hint": row["hint"] or ""} for row in ROWS]),
    }[ending]
    output = prepared(tmp_path, content, ending, columns_of())
    table = pq.read_table(output)
    assert table.schema.names == [*schema().names, *NAMES]
    assert [str(table.schema.field(name).type) for name in NAMES] == ["string", "string", "int64", "string", "double"]
    assert json_columns(table.schema) == ("about", "tests")
    assert further_columns_of(output) == NAMES
    frame = read_prepared(output)
    for name in NAMES:
        empty = "" if (ending, name) == (".csv", "hint") else None  # an empty text of a CSV file is a text
        assert frame[name].tolist() == [row[name] if row[name] is not None else empty for row in ROWS], name
    assert [type(value) for value in frame["weight"]] == [float, float]
    assert frame["id"].tolist() == ["file/mine/0", "file/mine/1"]
    assert frame["level"].tolist() == [None, None]


def test_lists_and_structs_of_a_parquet_file(tmp_path):
    table = pa.table({"question": ["x?"], "answer": ["1"], "tests": [["a", "b"]], "about": [{"k": 1, "v": None}]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    output = prepared(tmp_path, buffer.getvalue(), ".parquet", columns_of(("tests", "about")))
    assert values_of(output, "tests") == [["a", "b"]]
    assert values_of(output, "about") == [{"k": 1, "v": None}]


@pytest.mark.parametrize(
    ("values", "type_", "is_json"),
    [
        (["a", "b"], "string", False),
        (["1", "2"], "string", False),  # text stays text
        ([1, 2**63 - 1], "int64", False),
        ([1, 2.5], "double", False),
        ([1, 2**63], "string", True),  # larger than any type that holds it exactly
        ([0.5, 2**53 + 1], "string", True),
        ([True, False], "string", True),
        (["a", 1], "string", True),
        ([["a"], "a"], "string", True),
        ([None, None], "string", False),
        ([[None, {"": []}], {"a": {"b": "ß\u2028\x00"}}], "string", True),
        ([10**400, -(10**30)], "string", True),
    ],
)
def test_one_type_a_column(tmp_path, values, type_, is_json):
    rows = [{"question": f"{index}?", "answer": "1", "mine": value} for index, value in enumerate(values)]
    output = of_lines(tmp_path, [*rows, {"question": "last?", "answer": "1"}])
    field = pq.read_schema(output).field("mine")
    assert (str(field.type), "mine" in json_columns(pq.read_schema(output))) == (type_, is_json)
    found = values_of(output, "mine")
    assert found == [*values, None]
    assert type_ == "double" or [type(value) for value in found[:-1]] == [type(value) for value in values]


def test_a_number_that_is_none_is_null_and_stays_what_it_is_inside_a_list(tmp_path):
    output = of_lines(tmp_path, [{"question": "x?", "answer": "1", "a": math.nan, "b": [math.nan, math.inf]}])
    assert values_of(output, "a") == [None]
    [[first, second]] = values_of(output, "b")
    assert math.isnan(first)
    assert second == math.inf


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["[1, 2]", ""], [[1, 2], None]),
        (["[1, 2]", "[1, 2"], ["[1, 2]", "[1, 2"]),  # one that is no JSON: all are text
        (["7", "-2.5e3"], [7.0, -2500.0]),
        (["7", ""], [7, None]),
        (["007", "7"], ["007", "7"]),
        (["NaN", "Infinity"], ["NaN", "Infinity"]),
        (["true", "null"], ["true", "null"]),  # words
        (["", " "], ["", " "]),
        (["9" * 5000, "1"], ["9" * 5000, "1"]),
        (["[" * 5000, "1"], ["[" * 5000, "1"]),
    ],
)
def test_a_csv_file_has_numbers_and_lists_where_all_cells_are(tmp_path, cells, values):
    rows = [{"question": f"{index}?", "answer": "1", "mine": cell} for index, cell in enumerate(cells)]
    assert values_of(prepared(tmp_path, as_csv(rows), ".csv", {"mine": "mine"}), "mine") == values


def test_a_column_may_have_two_names_and_the_answer_of_a_csv_file_stays_as_written(tmp_path):
    content = b"question,answer\nx?,0072\ny?,72\n"
    output = prepared(tmp_path, content, ".csv", {"gold": "answer"})
    assert values_of(output, "answer") == ["0072", "72"]
    assert values_of(output, "gold") == ["0072", "72"]


def test_cells_beyond_the_usual_limit_of_csv_readers(tmp_path):
    text = "assert f(1) == 1\n" * 20_000
    assert len(text) > 131_072  # the limit of Python's reader, where nobody raises it
    for ending, content in ((".json", json.dumps), (".csv", as_csv)):
        rows = [{"question": "x?", "answer": "1", "text": text, "list": [text]}]
        raw = content(rows)
        output = prepared(tmp_path, raw.encode() if isinstance(raw, str) else raw, ending, columns_of(("text", "list")))
        assert values_of(output, "text") == [text]
        assert values_of(output, "list") == [[text]]


def test_a_deep_value_is_refused_and_one_at_the_limit_is_not(tmp_path):
    deep = json.loads("[" * 100 + "]" * 100)
    rows = [{"question": "x?", "answer": "1", "mine": deep}]
    assert values_of(of_lines(tmp_path, rows), "mine") == [deep]
    with pytest.raises(StudyError, match=r"mine: file/mine/0: mine: lists and objects nested deeper than 100 levels"):
        of_lines(tmp_path, [rows[0] | {"mine": {"a": deep}}])


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[" * 200_000 + "]" * 200_000, "lists and objects are nested too deep; flatten them"),
        ("9" * 5000, "a whole number has too many digits; write it as text"),
        ('["\\ud800"]', "a text has a character that is not Unicode"),
        ('"\\ud800"', "a text has a character that is not Unicode"),
        ('{"\\ud800": 1}', "a text has a character that is not Unicode"),
    ],
)
def test_values_that_cannot_be_kept_are_refused_in_one_line(tmp_path, value, message, ending):
    row = f'{{"question": "x?", "answer": "1", "mine": {value}}}'
    content = f"[{row}]" if ending == ".json" else row
    with pytest.raises(StudyError, match=message) as refusal:
        prepared(tmp_path, content.encode(), ending, {"mine": "mine"})
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("values", "kind"),
    [(pa.array([0], pa.timestamp("s")), "datetime"), (pa.array([b"\xff"]), "bytes"), (pa.array([[b"\xff"]]), "bytes")],
)
def test_a_parquet_value_that_json_does_not_have_is_refused(tmp_path, values, kind):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"question": ["x?"], "answer": ["1"], "mine": values}), buffer)
    with pytest.raises(StudyError, match=f"mine: file/mine/0: mine holds a {kind}; it must be text, a number"):
        prepared(tmp_path, buffer.getvalue(), ".parquet", {"mine": "mine"})


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array([Decimal("3.00"), Decimal("-4.00")], pa.decimal128(5, 2)), [3, -4]),
        (pa.array([Decimal("0.10"), None], pa.decimal128(5, 2)), [0.1, None]),
        (pa.array([[Decimal("0.10")], [Decimal("7.00")]], pa.list_(pa.decimal128(5, 2))), [[0.1], [7]]),
    ],
)
def test_decimals_are_numbers(tmp_path, values, numbers):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"question": ["x?", "y?"], "answer": ["1", "2"], "mine": values}), buffer)
    found = values_of(prepared(tmp_path, buffer.getvalue(), ".parquet", {"mine": "mine"}), "mine")
    assert (found, [type(value) for value in found]) == (numbers, [type(value) for value in numbers])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"__class__": "x"}, "'__class__' is no name of a column"),
        ({"a" * 81: "x"}, "is no name of a column"),
        ({"": "x"}, "'' is no name of a column"),
        ({"mine": None}, "mine: name the file's column; only answer can be null"),
        ({"question": None}, "question: name the file's column"),
        ({"mine": "a\nb"}, "more than one line"),
    ],
)
def test_names_that_cannot_be_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        FileData(source="file", path="mine.csv", columns=columns)


def test_further_columns_are_known_before_the_file_is_read():
    source = FileData(source="file", path="absent.csv", columns={"tests": "t", "answer": None, "level": "l", "Aa": "a"})
    assert further_columns(source) == ("Aa", "tests")


def test_problems_without_answers(tmp_path):
    rows = [{"question": "x?", "mine": 1}, {"question": "y?", "mine": 2}]
    with pytest.raises(StudyError, match=r"no column 'answer'.*where the problems have no answers, .*answer: null"):
        of_lines(tmp_path, rows)
    output = of_lines(tmp_path, rows, golds=False)
    assert values_of(output, "answer") == [None, None]
    assert json.loads(output.with_suffix(".json").read_text())["dropped_no_gold"] == 0


def test_without_golds_answers_are_kept_and_not_checked(tmp_path):
    rows = [{"question": "x?", "answer": r"\frac{"}, {"question": "y?", "answer": ""}, {"question": "z?", "answer": 7}]
    assert values_of(of_lines(tmp_path, rows, golds=False), "answer") == [r"\frac{", None, "7"]
    output = of_lines(tmp_path, rows, {"answer": None}, golds=False)
    assert values_of(output, "answer") == [None, None, None]


def test_the_order_of_the_names_changes_no_byte(tmp_path):
    first = of_lines(tmp_path, ROWS, columns_of()).read_bytes()
    assert of_lines(tmp_path, ROWS, columns_of(reversed(NAMES))).read_bytes() == first


@pytest.mark.parametrize("content", [None, b"PAR1", b""])
def test_what_is_no_prepared_set_is_one_line(tmp_path, content):
    path = tmp_path / "x.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StudyError, match=r"x\.parquet: not a prepared set of problems \("):
        read_prepared(path)


def test_a_table_without_the_columns_of_problems_is_no_prepared_set(tmp_path):
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(StudyError, match="not a prepared set of problems: no column question"):
        read_prepared(tmp_path / "x.parquet")
