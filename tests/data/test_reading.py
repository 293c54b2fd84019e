"""Reading files: four formats with one content, and every way in which a file can be bad."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.data.reading import read_file
from reward_ablation.system.errors import StudyError

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '[{"question": "é?", "answer": "1"}, {"question": "b?", "answer": "2"}]'),
        ("a.jsonl", '{"question": "é?", "answer": "1"}\n\n{"question": "b?", "answer": "2"}\n'),
        ("a.csv", "\ufeffquestion,answer\r\né?,1\r\nb?,2\r\n"),  # as spreadsheets save it
        ("a.CSV", 'question,answer\n"é?","1"\n\nb?,2\n'),
    ],
)
def test_text_formats(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert read_file(tmp_path / name) == [{"question": "é?", "answer": "1"}, {"question": "b?", "answer": "2"}]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("values", "of"),
    [
        ([0.1, 2.5, 3.0, -0.07, 1e-4, 2048.0, None, float("inf")], lambda kind: kind),
        ([[0.1, None], [], None], pa.list_),
        ([[0.1, 0.2]], lambda kind: pa.list_(kind, 2)),
        ([{"float": 0.1, "b": [0.7]}, None], lambda kind: pa.struct({"float": kind, "b": pa.list_(kind)})),
    ],
    ids=["plain", "list", "pairs", "objects"],
)
def test_narrow_floats_of_parquet_have_their_shortest_digits(tmp_path, kind, values, of):
    wide = pa.array(values, of(pa.float64()))
    pq.write_table(pa.table({"answer": wide.cast(of(kind)), "float": ["0.1"] * len(values)}), tmp_path / "a.parquet")
    assert read_file(tmp_path / "a.parquet") == [{"answer": value, "float": "0.1"} for value in values]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '[\n{"a": 1},\n{"a": }\n]', "line 3: not JSON"),
        ("a.json", '{"a": 1}', "must hold a list of objects"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2: not JSON"),
        ("a.jsonl", '{"a": 1}\n[1]\n', "line 2: must be an object"),
        ("a.csv", "", "is empty"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "line 3: 3 values for 2 columns"),
        ("a.csv", "a,a\n1,2\n", "line 1: column 'a' occurs twice; rename"),
        ("a.json", '[{"a": 1},\n {"b": 1, "b": 2}]', "line 2: key 'b' occurs twice"),
        ("a.csv", LFS_POINTER, "is a Git LFS pointer, .* `git lfs pull`"),
        ("a.parquet", LFS_POINTER, "is a Git LFS pointer, .* `git lfs pull`"),
        ("a.csv", 'a,b\n1,"2\n', "line 2: not CSV"),  # the quotation mark is never closed
        ("a.csv", "a,b\n1,é\n".encode("latin-1"), "not UTF-8 text"),
        ("a.parquet", "PAR1", "not a Parquet file"),
        ("a.txt", "1", "it must end in .json, .jsonl, .ndjson, .csv, .parquet"),
        ("a.csv", None, "no such file"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StudyError, match=rf"^{path}.*{message}.*\Z"):
        read_file(path)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (pa.table([["x?"], ["1"], ["2"]], names=["question", "answer", "answer"]), "answer"),
        (pa.table({"a": pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int64())] * 2)))}), "a.element.x"),
    ],
)
def test_a_parquet_column_twice_is_named(tmp_path, table, name):
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(StudyError, match=f"a.parquet: column '{name}' occurs twice; rename one of the two"):
        read_file(tmp_path / "a.parquet")
