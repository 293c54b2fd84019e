"""Preparing a set of problems: what is dropped, what is refused, what is written."""

import json
import subprocess
import sys
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from reward_ablation.data import problems, sources
from reward_ablation.data.__main__ import main
from reward_ablation.data.problems import PrepareSpec, as_text, prepare, schema
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


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
    known = {"id": "file/mine/0", "question": "x?", "answer": "72", "source": "file", "split": "all"}
    assert table.to_pylist() == [dict.fromkeys(schema().names) | known]


def test_words_for_missing_golds_are_dropped_counted_and_told(tmp_path, capsys):
    golds = ["1", "nan", "None", " N/A ", "inf", "nan", "none", "Infinity", r"\text{None}", "", "#DIV/0!"]
    rows = [problem(f"{index}?", gold) for index, gold in enumerate(golds)]
    prepare(spec_of(tmp_path, rows), "mine", tmp_path / "out.parquet")
    kept = pq.read_table(tmp_path / "out.parquet")["answer"].to_pylist()
    assert kept == ["1", "none", "Infinity", r"\text{None}"]
    counts = json.loads((tmp_path / "out.json").read_text())
    words = {"nan": 2, "None": 1, "N/A": 1, "inf": 1, "#DIV/0!": 1}
    assert (counts["dropped_no_gold"], counts["golds_taken_as_missing"]) == (7, words)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("mine: golds that count as missing: 'nan' (2), 'None' (1), 'N/A' (1), 'inf' (1), '#DIV/0!'")
    assert line.endswith(r"; where such a word is the answer, write it as \text{...}")


def test_numbers_without_a_value_are_missing_and_a_set_without_words_has_no_new_count(tmp_path, capsys):
    words = {"level": "nan", "solution": "None", "subject": "<NA>"}
    rows = [problem("x?", 1, **words), problem("y?", float("nan")), problem("z?", None), problem("v?", "  ")]
    prepare(spec_of(tmp_path, rows), "mine", tmp_path / "out.parquet")
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row[name] for name in ("level", "solution", "subject")] == [None] * 3
    counts = json.loads((tmp_path / "out.json").read_text())
    assert {*counts} == {"rows", "dropped_no_gold", "dropped_duplicates", "dropped_overlap", "source", "sha256"}
    assert (counts["rows"], counts["dropped_no_gold"]) == (1, 3)
    assert capsys.readouterr().out == ""
    prepare(spec_of(tmp_path, [*rows, problem("w?", float("-inf"))]), "mine", tmp_path / "out.parquet")
    assert json.loads((tmp_path / "out.json").read_text())["golds_taken_as_missing"] == {"-inf": 1}


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
        ([problem("x?", [1, 2])], "row 0: answer is a list; it must be text or a number"),
        ([problem({"text": "x?"})], "row 0: question is an object; name the field with its text, .*; fields here:"),
        ([problem("nan")], r"row 0: no question \(but 'nan'\); every problem needs one"),
        ([problem("x?", id="a"), problem("y?")], "row 1: no id"),
        ([problem("\ud800?")], "a text has a character that is not Unicode"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_one_line(tmp_path, rows, message):
    with pytest.raises(StudyError, match=rf"^.*{message}.*\Z"):
        prepare(spec_of(tmp_path, rows), "mine", tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.jsonl"]


def test_golds_that_fail_are_named_once_in_one_line(tmp_path):
    golds = ["1", r"\frac{1}{2", "x" * 3000, "a\x00b", "no\n#### 72", "72"]
    rows = [problem(f"{number}?", gold) for number, gold in enumerate(golds)]
    rows += [problem("0? ", "{"), problem("9?", "")]  # golds of problems that are dropped need not be right
    with pytest.raises(StudyError) as caught:
        prepare(spec_of(tmp_path, rows, duplicates="drop"), "train", tmp_path / "out.parquet")
    unreadable = "unreadable: braces, nesting, length or control characters"
    assert str(caught.value) == (
        "train: 4 golds do not grade themselves as correct: "
        rf"file/mine/1: '\frac{{1}}{{2' ({unreadable}); file/mine/2: '{'x' * 49}…' ({unreadable}); "
        rf"file/mine/3: 'a\x00b' ({unreadable}), …; "
        "a gold must be the answer alone: correct it in the data, or leave it empty to drop its problem"
    )
    assert not (tmp_path / "out.parquet").exists()


def test_duplicates_are_refused_by_name_or_the_first_with_a_gold_is_kept(tmp_path):
    rows = [problem("Die  Straße?", None), problem("Die Straße?", "1"), problem("die STRASSE?", "2")]
    rows += [problem("Die Straße?\n", "3"), problem("DieStraße?", "4")]  # only runs of blanks do not matter
    message = r"set: 2 questions occur more than once, first file/mine/2 \(as file/mine/1\); data.duplicates: drop"
    with pytest.raises(StudyError, match=message):
        prepare(spec_of(tmp_path, rows), "set", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    prepare(spec_of(tmp_path, rows, duplicates="drop"), "set", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["answer"].to_pylist() == ["1", "4"]
    assert json.loads((tmp_path / "out.json").read_text())["dropped_duplicates"] == 2


def test_a_file_that_changed_after_planning_is_refused(tmp_path, monkeypatch):
    spec_of(tmp_path, [problem("x?")])
    path = tmp_path / "mine.jsonl"
    # as the workflow writes the spec: the digest is in the source, the other sets' sources are listed
    source = {"source": "file", "path": str(path), "content": sha256(path)}
    spec = PrepareSpec.model_validate({"source": source, "apart_from": [{"any": "thing"}]})
    prepare(spec, "train", tmp_path / "out.parquet")
    (tmp_path / "out.parquet").unlink()

    def load(*arguments):
        spec_of(tmp_path, [problem("y?")])
        return sources.load(*arguments)

    monkeypatch.setattr(problems, "load", load)
    for _ in ("while it is read", "before it is read"):
        with pytest.raises(StudyError, match=r"mine\.jsonl: has changed since the workflow was planned"):
            prepare(spec, "train", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(72, "72"), (72.0, "72"), (0.5, "0.5"), ("72.0", "72.0"), (None, None)],
        *[(Decimal("0.50"), "0.5"), (Decimal("-700"), "-700"), (Decimal("0.00"), "0"), (Decimal("1E+3"), "1000")],
        (Decimal("1234567890123456789012345678901234.5670"), "1234567890123456789012345678901234.567"),
    ],
)
def test_numbers_as_text(value, text):
    assert as_text(value, "here") == text


def test_the_command_gives_the_same_bytes_as_another_process(tmp_path):
    spec = '{"source": {"source": "word_problems", "split": "train", "count": 20}}'
    command = [sys.executable, "-m", "reward_ablation.data", "--spec", spec, "--name", "train"]
    subprocess.run([*command, "--output", tmp_path / "one.parquet"], check=True)
    prepare(PrepareSpec.model_validate_json(spec), "train", tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert one == {**two, "code": deciding_digest("data"), "apart_from": []}
    with pytest.raises(StudyError, match=r"^--spec: not JSON \(Expecting property name.*"):
        main(["--spec", "{", "--name", "train", "--output", str(tmp_path / "out.parquet")])
