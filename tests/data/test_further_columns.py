"""Further columns, from a file of any format to the values that components receive."""

import json
import math
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.config.sections.data import FileData
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


def prepared(tmp_path, content, ending=".jsonl", columns=None, **switches):
    """Prepare a file of this content, which is bytes, a table or rows."""
    file, output = tmp_path / f"mine{ending}", tmp_path / "out.parquet"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif ending == ".parquet":
        pq.write_table(content, file)
    elif ending == ".csv":
        cells = [{k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()} for row in content]
        pd.DataFrame(cells, dtype=object).to_csv(file, index=False)
    else:
        file.write_text("\n".join(map(json.dumps, content)) if ending == ".jsonl" else json.dumps(content))
    if columns is None:
        columns = columns_of([name for name in content[0] if name not in schema().names])
    source = {"source": "file", "path": str(file), "columns": columns}
    prepare(PrepareSpec.model_validate({"source": source, **switches}), "mine", output)
    return output


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".csv"])
def test_values_come_back_as_they_were(tmp_path, ending):
    output = prepared(tmp_path, ROWS, ending)
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


@pytest.mark.parametrize(
    ("values", "type_", "is_json"),
    [
        (["a", "1"], "string", False),
        ([1, 2**63 - 1], "int64", False),
        ([1, 2.5], "double", False),
        ([1, 2**63], "string", True),  # larger than any type that holds it exactly
        ([0.5, 2**53 + 1], "string", True),
        (["a", True], "string", True),
        ([[None, {"": []}], {"a": {"b": "ß\u2028\x00"}}], "string", True),
        ([10**400, -(10**30)], "string", True),
    ],
)
def test_one_type_a_column(tmp_path, values, type_, is_json):
    rows = [{"question": f"{index}?", "answer": "1", "mine": value} for index, value in enumerate(values)]
    output = prepared(tmp_path, [*rows, {"question": "last?", "answer": "1"}])
    field = pq.read_schema(output).field("mine")
    assert (str(field.type), "mine" in json_columns(pq.read_schema(output))) == (type_, is_json)
    found = read_prepared(output)["mine"].tolist()
    assert found == [*values, None]
    assert type_ == "double" or [type(value) for value in found[:-1]] == [type(value) for value in values]


def test_a_number_that_is_none_is_null_and_stays_what_it_is_inside_a_list(tmp_path):
    rows = [one_row(a=math.nan, b=[math.nan, math.inf])]
    assert mine_of(tmp_path, rows, name="a") == [None]
    [[first, second]] = mine_of(tmp_path, rows, name="b")
    assert math.isnan(first)
    assert second == math.inf


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["[1, 2]", ""], [[1, 2], None]),
        (["[1, 2]", "[1, 2"], ["[1, 2]", "[1, 2"]),  # one that is no JSON: all are text
        (["7", "-2.5e3", ""], [7, -2500.0, None]),
        (["007", "7"], ["007", "7"]),
        (["NaN", "true"], ["NaN", "true"]),  # words
        (["", " "], ["", " "]),
        (["9" * 5000, "1"], ["9" * 5000, "1"]),
        (["x" * 140_000, "1"], ["x" * 140_000, "1"]),  # beyond the limit of Python's reader
    ],
)
def test_a_csv_file_has_numbers_and_lists_where_all_cells_are(tmp_path, cells, values):
    rows = [{"question": f"{index}?", "answer": "007", "mine": cell} for index, cell in enumerate(cells)]
    columns = {"mine": "mine", "gold": "answer"}
    assert mine_of(tmp_path, rows, ".csv", columns) == values
    gold, answer = (mine_of(tmp_path, rows, ".csv", columns, name=name) for name in ("gold", "answer"))
    assert gold == answer == ["007"] * len(cells)  # a column may have two names


def test_a_deep_value_is_refused_and_one_at_the_limit_is_not(tmp_path):
    deep = json.loads("[" * 100 + "]" * 100)
    assert mine_of(tmp_path, [one_row(mine=deep)]) == [deep]
    with pytest.raises(StudyError, match=r"mine: file/mine/0: mine: lists and objects nested deeper than 100 levels"):
        prepared(tmp_path, [one_row(mine={"a": deep})])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"__class__": "x"}, "'__class__' is no name of a column"),
        ({"": "x"}, "'' is no name of a column"),
        ({"mine": None}, "mine: name the file's column; only answer can be null"),
        ({"mine": "a\nb"}, "more than one line"),
    ],
)
def test_names_that_cannot_be_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        FileData(source="file", path="mine.csv", columns=columns)


def test_without_golds_answers_are_kept_and_not_checked(tmp_path):
    rows = [{"question": "x?", "answer": r"\frac{"}, {"question": "y?", "answer": ""}, {"question": "z?", "answer": 7}]
    assert mine_of(tmp_path, rows, name="answer", golds=False) == [r"\frac{", None, "7"]
    assert mine_of(tmp_path, rows, ".jsonl", {"answer": None}, name="answer", golds=False) == [None, None, None]
    questions = [{"question": "x?"}, {"question": "y?"}]
    with pytest.raises(StudyError, match=r"no column 'answer'.*where the problems have no answers, .*answer: null"):
        prepared(tmp_path, questions)
    output = prepared(tmp_path, questions, golds=False)
    assert json.loads(output.with_suffix(".json").read_text())["dropped_no_gold"] == 0


def test_the_order_of_the_names_changes_no_byte(tmp_path):
    first = prepared(tmp_path, ROWS).read_bytes()
    assert prepared(tmp_path, ROWS, ".jsonl", columns_of(reversed(NAMES))).read_bytes() == first


def test_what_is_no_prepared_set_is_one_line(tmp_path):
    path = tmp_path / "x.parquet"
    for content in (None, b"PAR1"):
        if content:
            path.write_bytes(content)
        with pytest.raises(StudyError, match=r"x\.parquet: not a prepared set of problems \("):
            read_prepared(path)
    pq.write_table(pa.table({"id": ["a"]}), path)
    with pytest.raises(StudyError, match="not a prepared set of problems: no column question"):
        read_prepared(path)


def mine_of(*given, name="mine", **switches) -> list:
    """The values of a column after `prepared`."""
    return read_prepared(prepared(*given, **switches))[name].tolist()


def one_row(**values):
    return {"question": "x?", "answer": "1", **values}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[" * 200_000 + "]" * 200_000, "lists and objects are nested too deep; flatten them"),
        ("9" * 5000, "a whole number has too many digits; write it as text"),
        ('["\\ud800"]', "a text has a character that is not Unicode"),
        ('"\\ud800"', "a text has a character that is not Unicode"),
    ],
)
def test_values_that_json_cannot_keep_are_refused_in_one_line(tmp_path, value, message):
    content = f'{{"question": "x?", "answer": "1", "mine": {value}}}'.encode()
    with pytest.raises(StudyError, match=rf"^.*{message}.*\Z"):
        prepared(tmp_path, content, ".jsonl", {"mine": "mine"})
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pa.array([Decimal("3.00"), Decimal("-4.00")], pa.decimal128(5, 2)), [3, -4]),
        (pa.array([Decimal("0.10"), None], pa.decimal128(5, 2)), [0.1, None]),
        (pa.array([[Decimal("0.10")], [Decimal("7.00")]], pa.list_(pa.decimal128(5, 2))), [[0.1], [7]]),
        (pa.array([{"k": 1, "v": None}, {"k": None, "v": None}]), [{"k": 1, "v": None}, {"k": None, "v": None}]),
        (pa.array([0, 1], pa.timestamp("s")), "mine: file/mine/0: mine holds a datetime; it must be text, a number"),
        (pa.array([[b"\xff"], []]), "mine: file/mine/0: mine holds a bytes; it must be text, a number"),
    ],
)
def test_values_of_parquet(tmp_path, values, found):
    table = pa.table({"question": ["x?", "y?"], "answer": ["1", "2"], "mine": values})
    if isinstance(found, str):
        with pytest.raises(StudyError, match=found):
            prepared(tmp_path, table, ".parquet", {"mine": "mine"})
    else:
        got = mine_of(tmp_path, table, ".parquet", {"mine": "mine"})
        assert (got, [type(value) for value in got]) == (found, [type(value) for value in found])
