"""Preparing a set of problems: what is dropped, what is refused, what is written."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from reward_ablation.data.problems import PrepareSpec, as_text, prepare, question_key, schema
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from storage import fill, small_disk


def spec_of(tmp_path, rows, name="mine", **switches) -> PrepareSpec:
    path = tmp_path / f"{name}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return PrepareSpec.model_validate({"source": {"source": "file", "path": str(path)}, **switches})


def problem(question, answer="1", **more):
    return {"question": question, "answer": answer, **more}


def test_the_schema_is_the_same_whatever_the_source_lacks(tmp_path):
    prepare(spec_of(tmp_path, [problem(" x? ", 72.0)]), "mine", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema == schema()
    assert table.to_pylist() == [
        {
            "id": "file/mine/0",
            "question": "x?",
            "answer": "72",
            "solution": None,
            "source": "file",
            "split": "all",
            "level": None,
            "subject": None,
        }
    ]


@pytest.mark.parametrize("answer", [None, "", "  ", float("nan")])
def test_problems_without_gold_are_dropped_and_counted(tmp_path, answer):
    prepare(spec_of(tmp_path, [problem("x?"), problem("y?", answer)]), "mine", tmp_path / "out.parquet")
    counts = json.loads((tmp_path / "out.json").read_text())
    assert (counts["rows"], counts["dropped_no_gold"]) == (1, 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("What is 2 + 2?", "what  is 2 + 2?\n", True),
        ("Straße", "STRASSE", True),
        ("What is 2 + 2?", "What is 2 + 3?", False),
        ("What is 2+2?", "What is 2 + 2?", False),  # a blank inside a formula may matter; only runs of blanks do not
    ],
)
def test_what_makes_two_questions_one(one, other, same):
    assert (question_key(one) == question_key(other)) is same


def test_duplicates_are_refused_by_name(tmp_path):
    rows = [problem("x?"), problem("y?"), problem("X? ")]
    message = r"set: 1 question occurs more than once, first file/mine/2 \(as file/mine/0\); duplicates: drop"
    with pytest.raises(StudyError, match=message):
        prepare(spec_of(tmp_path, rows), "set", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_duplicates_dropped_keep_the_first(tmp_path):
    rows = [problem("x?", "1"), problem("X?", "2"), problem("x?", "3"), problem("y?", "4")]
    prepare(spec_of(tmp_path, rows, duplicates="drop"), "set", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["answer"].to_pylist() == ["1", "4"]
    assert json.loads((tmp_path / "out.json").read_text())["dropped_duplicates"] == 2


def test_the_first_copy_with_a_gold_is_kept(tmp_path):
    rows = [problem("x?", None), problem("x?", "2")]
    prepare(spec_of(tmp_path, rows), "set", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["answer"].to_pylist() == ["2"]


def test_overlap_with_an_evaluation_set(tmp_path):
    evaluation = tmp_path / "exam.parquet"
    prepare(spec_of(tmp_path, [problem("x?"), problem("z?")], "exam"), "exam", evaluation)
    rows = [problem("y?"), problem(" X?")]
    with pytest.raises(StudyError, match=r"1 question occurs in an evaluation set too, first file/mine/1 \(as exam: "):
        prepare(spec_of(tmp_path, rows), "train", tmp_path / "out.parquet", [evaluation])
    prepare(spec_of(tmp_path, rows, overlap="drop"), "train", tmp_path / "out.parquet", [evaluation])
    assert pq.read_table(tmp_path / "out.parquet")["question"].to_pylist() == ["y?"]
    assert json.loads((tmp_path / "out.json").read_text())["dropped_overlap"] == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([problem("x?", None)], r"none of 1 problems is left \(dropped no gold: 1"),
        ([problem("")], "row 0: no question"),
        ([problem(None)], "row 0: no question"),
        ([problem("x?", [1, 2])], "row 0: answer is a list; it must be text or a number"),
        ([problem("x?", True)], "row 0: answer is a bool"),
        ([problem({"text": "x?"})], "row 0: question is a dict"),
        ([problem("x?", id="a"), problem("y?", id="a")], "row 1: id a occurs twice"),
        ([problem("x?", id="a"), problem("y?")], "row 1: no id"),
        ([problem("\ud800?")], "a text has a character that is not Unicode"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_one_line(tmp_path, rows, message):
    with pytest.raises(StudyError, match=message) as caught:
        prepare(spec_of(tmp_path, rows), "mine", tmp_path / "out.parquet")
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl"]


def test_golds_that_fail_are_named_once_in_one_line(tmp_path):
    golds = ["1", r"\frac{1}{2", "x" * 3000, "a\x00b", "no\n#### 72", "72"]
    rows = [problem(f"{number}?", gold) for number, gold in enumerate(golds)]
    with pytest.raises(StudyError) as caught:
        prepare(spec_of(tmp_path, rows), "train", tmp_path / "out.parquet")
    unreadable = "unreadable: braces, nesting, length or control characters"
    assert str(caught.value) == (
        "train: 4 golds do not grade themselves as correct: "
        rf"file/mine/1: '\frac{{1}}{{2' ({unreadable}); file/mine/2: '{'x' * 49}…' ({unreadable}); "
        rf"file/mine/3: 'a\x00b' ({unreadable}), …; "
        "a gold must be the answer alone: correct it in the data, or leave it empty to drop its problem"
    )
    assert not (tmp_path / "out.parquet").exists()


def test_golds_of_problems_that_are_dropped_need_not_be_right(tmp_path):
    rows = [problem("x?", "1"), problem("X?", "{"), problem("y?", "")]
    prepare(spec_of(tmp_path, rows, duplicates="drop"), "set", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["answer"].to_pylist() == ["1"]


def test_a_file_that_changed_after_planning_is_refused(tmp_path):
    spec_of(tmp_path, [problem("x?")])
    path = tmp_path / "mine.jsonl"
    # as the workflow writes the spec: the digest is in the source, the other sets' sources are listed
    planned = {
        "source": {"source": "file", "path": str(path), "content": sha256(path)},
        "apart_from": [{"any": "thing"}],
    }
    prepare(PrepareSpec.model_validate(planned), "train", tmp_path / "out.parquet")
    spec_of(tmp_path, [problem("y?")])
    with pytest.raises(StudyError, match=r"mine\.jsonl: has changed since the workflow was planned"):
        prepare(PrepareSpec.model_validate(planned), "train", tmp_path / "out.parquet")


@pytest.mark.parametrize(("value", "text"), [(72, "72"), (72.0, "72"), (0.5, "0.5"), ("72.0", "72.0"), (None, None)])
def test_numbers_as_text(value, text):
    assert as_text(value, "here") == text


def test_the_command_gives_the_same_bytes_as_another_process(tmp_path):
    spec = '{"source": {"source": "word_problems", "split": "train", "count": 20}}'
    command = [sys.executable, "-m", "reward_ablation.data", "--spec", spec, "--name", "train"]
    subprocess.run([*command, "--output", tmp_path / "one.parquet"], check=True)
    prepare(PrepareSpec.model_validate_json(spec), "train", tmp_path / "two.parquet")
    for ending in ("parquet", "json"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{", "error: --spec: not JSON (Expecting property name"),
        ('{"source": {"source": "gsm9k"}}', "error: --spec: source: source 'gsm9k' is not allowed; allowed: gsm8k"),
        ('{"source": {"source": "file", "path": "absent.csv"}}', "error: absent.csv: no such file"),
    ],
)
def test_the_command_tells_an_error_in_one_line(tmp_path, spec, message):
    command = [sys.executable, "-m", "reward_ablation.data", "--spec", spec, "--name", "train"]
    command += ["--output", tmp_path / "out.parquet"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith(message)
    assert len(result.stderr.splitlines()) == 1


def test_a_full_disk_is_one_line_and_with_space_the_same_command_ends_well(tmp_path):
    spec = {"source": {"source": "word_problems", "count": 400, "split": "test"}, "duplicates": "drop"}
    with small_disk(tmp_path / "disk") as disk:
        filler = fill(disk, leave=4096)
        command = [sys.executable, "-m", "reward_ablation.data", "--spec", json.dumps(spec), "--name", "test"]
        command += ["--output", str(disk / "test.parquet")]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 1
        assert result.stderr.startswith(
            f"error: {disk / 'test.parquet'}: No space left on device; what is done is kept"
        )
        assert result.stderr.count("\n") == 1
        assert [path.name for path in disk.iterdir()] == [filler.name]
        filler.unlink()
        assert subprocess.run(command).returncode == 0
        assert pq.read_table(disk / "test.parquet").num_rows == 400
