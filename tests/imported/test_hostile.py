"""Files and YAMLs that are wrong or hostile end in one line, and nothing is written or run."""

import json
import os
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from reward_ablation.imported import results
from reward_ablation.imported.files import LONGEST_LINE
from reward_ablation.imported.readers import common
from reward_ablation.imported.results import is_current
from reward_ablation.system.errors import StudyError

from .studies import imported, write_rows

ROW = {"step": 1, "problem": "p", "completion": "text", "score": 1.0}
COLUMNS = {"step": "step", "problem": "problem", "completion": "completion", "scores": {"a": "score"}}
GOLDS = {"path": "golds.jsonl", "by": "prompt", "key": "k", "answer": "a"}
ANSWERS = {"format": "table", "mode": "greedy", "columns": {"problem": "problem", "correct": "score"}}
ANSWERS |= {"runs": {"full": {0: "run.jsonl"}}}
LENGTH = {"function": "token_length", "parameters": {"target": 9, "width": 9}}


def study(path: str, **changes) -> dict:
    runs = {"full": {"weights": {"a": 1.0}, "seeds": {0: path}}}
    written = {"name": "mine", "arms": {"design": "imported", "runs": runs}}
    return {**written, "rollouts": {"format": "table", "columns": COLUMNS}, **changes}


def refusal(root: Path, written: dict) -> str:
    """The message with which an import is refused, in one line; nothing is left in the folder of the results."""
    before = sorted(root.rglob("*"))
    with pytest.raises(StudyError) as error:
        imported(root, written)
    left = [path for path in sorted(root.rglob("*")) if path not in before]
    assert [path.name for path in left] in ([], ["results"])
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([ROW | {"score": float("inf")}], "line 1: score is inf, not a finite number"),
        ([ROW, ROW | {"completion": ["text"]}], "line 2: completion is a list, not a text"),
        ([{"step": 1, "problem": "p"}], "line 1: no completion; here: step, problem"),
        ([ROW | {"completion": "\ud800"}], "half a character (a surrogate)"),
        ([ROW | {"problem": {"id": 1}}], "line 1: problem is a dict, not a text"),
        ([ROW | {"step": 0}], "step 0; steps count from 1: add 1 to all"),
        ([ROW | {"step": 1.5}], "step is '1.5', not a whole number"),
        ([], "no rows"),
    ],
)
def test_rows_that_are_wrong(tmp_path, rows, words):
    write_rows(tmp_path / "run.jsonl", rows)
    assert words in refusal(tmp_path, study("run.jsonl"))


def test_an_index_within_the_batch_is_no_id_of_a_problem(tmp_path):
    columns = COLUMNS | {"prompt": "prompt", "gold": "gold"}
    written = study("run.jsonl", rollouts={"format": "table", "columns": columns})
    row = ROW | {"prompt": "a", "gold": "1"}
    for second, words in [
        ({"gold": "2"}, "run.jsonl: problem p has two right answers, '1' and '2'; give each problem an id of its own"),
        ({"prompt": "b"}, "run.jsonl: problem p has two prompts, 'a' and 'b'; give each problem an id of its own"),
    ]:
        write_rows(tmp_path / "run.jsonl", [row, row | {"step": 2} | second])
        assert words in refusal(tmp_path, written)
    write_rows(tmp_path / "run.jsonl", [row, row | {"step": 2, "gold": None}])
    imported(tmp_path, written)


@pytest.mark.parametrize(("ending", "missing"), [("jsonl", " "), ("jsonl", "None"), ("parquet", float("nan"))])
def test_a_missing_gold_is_no_right_answer(tmp_path, missing, ending):
    write_rows(tmp_path / "run.jsonl", [ROW | {"completion": r"\boxed{72}"}, ROW | {"problem": "q"}])
    write_rows(tmp_path / f"golds.{ending}", [{"k": "p", "a": 72.0}, {"k": "q", "a": missing}])
    golds = GOLDS | {"path": f"golds.{ending}", "by": "problem_id"}
    (written,) = imported(tmp_path, study("run.jsonl", golds=golds)).glob("runs/*/seed0/rollouts.parquet")
    assert pd.read_parquet(written)["gold"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"step": 1', "line 1: not JSON"),
        (b"[1]", "line 1: a list, not an object"),
        (b'{"step": 1, "step": 2}', "line 1: not JSON: line 1: key 'step' occurs twice"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"step": ' + b"9" * 5000 + b"}", "too many digits"),
    ],
)
def test_lines_that_are_no_rows(tmp_path, content, words):
    (tmp_path / "run.jsonl").write_bytes(content)
    assert words in refusal(tmp_path, study("run.jsonl"))


@pytest.mark.parametrize(("ending", "place"), [("csv", "run.csv: line 1"), ("parquet", "run.parquet")])
def test_a_column_that_occurs_twice(tmp_path, ending, place):
    table = pa.table([[1], ["p"], ["text"], [1.0], [0.0]], names=["step", "problem", "completion", "score", "score"])
    (csv.write_csv if ending == "csv" else pq.write_table)(table, tmp_path / f"run.{ending}")
    words = f"{place}: column 'score' occurs twice; rename one of the two, or take it out"
    assert words in refusal(tmp_path, study(f"run.{ending}"))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path, ending):
    rows = pd.DataFrame([ROW | {"score": True}, ROW | {"step": 2, "completion": "", "score": None}])
    text = rows.to_csv(index=False) if ending == "csv" else rows.to_json(orient="records", lines=True)
    (tmp_path / f"run.{ending}").write_text(text, encoding="utf-8-sig")
    (written,) = imported(tmp_path, study(f"run.{ending}")).glob("runs/*/seed0/rollouts.parquet")
    read = pd.read_parquet(written)
    assert read["step"].tolist() == [1, 2]
    assert read["completion"].tolist() == ["text", ""]
    assert (read["score_a"][0], pd.isna(read["score_a"][1])) == (1.0, True)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["run/a.jsonl", "run/b.jsonl"], "b.jsonl: the same content as "),
        (["run/a.jsonl", "run/a.parquet"], "run: .jsonl and .parquet files; name one file, or a folder with one kind"),
        (["run"], "run: a table's name ends in .parquet, .csv or .jsonl; export it"),
    ],
)
def test_files_that_would_count_twice_or_are_no_tables(tmp_path, names, words):
    for name in names:
        write_rows(tmp_path / name, [ROW])
    assert words in refusal(tmp_path, study("run"))


@pytest.mark.parametrize(("second", "column"), [("a/b", "a_b"), ("mode_value", None), ("answer_value", "answer_value")])
def test_metrics_that_would_be_one_column(second, column):
    scores = {"acc": 1.0, "a-b": 0.0, "answer": 0.0, "tokens": 0.25, second: 0.5}
    row = {"problem_id": "p", "question": "q", "mode": "greedy", "tokens": 7, "scores": scores}
    if column is None:
        read = common.answers(Path("log"), [row], "acc", [])
        assert read.metrics == ["tokens", "a_b", "answer_value", "tokens_value", second]
        assert (read.table["tokens"][0].as_py(), read.table["tokens_value"][0].as_py()) == (7, 0.25)
    else:
        with pytest.raises(StudyError, match=rf"log: the metrics .* would both be {column}; rename one of the two"):
            common.answers(Path("log"), [row], "acc", [])


def test_a_line_of_a_gigabyte_is_not_read_to_its_end(tmp_path):
    with (tmp_path / "run.jsonl").open("wb") as file:
        file.write(json.dumps(ROW).encode() + b"\n" + b'{"completion": "')
        file.truncate(1 << 30)  # a hole: no disk is filled
    assert f"line 2 has more than {LONGEST_LINE >> 20} MB" in refusal(tmp_path, study("run.jsonl"))


def test_links_in_a_folder_are_not_followed_and_paths_in_files_are_texts(tmp_path):
    write_rows(tmp_path / "elsewhere.jsonl", [ROW])
    (tmp_path / "run").mkdir()
    os.symlink(tmp_path / "elsewhere.jsonl", tmp_path / "run" / "rows.jsonl")
    assert "no *.parquet or *.csv or *.jsonl in it" in refusal(tmp_path, study("run"))
    write_rows(tmp_path / "scratch" / "completions_00001.parquet", [])
    os.symlink(tmp_path / "scratch", tmp_path / "run" / "completions")
    assert "in it, links left out; name the folder" in refusal(tmp_path, study("run", rollouts={"format": "trl"}))
    odd = ["/etc/passwd", "file:///etc/passwd", "<script>alert(1)</script>", "\x1b[2J", "=cmd|' /C calc'!A0"]
    write_rows(tmp_path / "run" / "own.jsonl", [ROW | {"problem": text, "completion": text} for text in odd])
    folder = imported(tmp_path, study("run"))
    (written,) = folder.glob("runs/*/seed0/rollouts.parquet")
    assert pd.read_parquet(written)["completion"].tolist() == odd


@pytest.mark.parametrize(
    ("columns", "later", "words"),
    [
        ({}, {}, "no column of scores"),
        ({"completion": None, "r": 1.0}, {}, "completion is a NoneType"),
        ({"prompt": {"a": 1}, "r": 1.0}, {}, "prompt is a dict"),
        ({"r": 1.0}, {"other": 1.0}, "00002.parquet: no column 'r'; columns here: prompt, completion, advantage, "),
        ({"r": 1.0}, {"r": 1.0, "length": 1.0}, "00002.parquet: scores 'length', which the files before lack; name"),
    ],
)
def test_files_that_are_not_trls(tmp_path, columns, later, words):
    row = {"prompt": "a", "completion": "b", "advantage": 0.0}
    for number, further in enumerate((columns, later), 1):
        write_rows(tmp_path / "run" / f"completions_0000{number}.parquet", [row | {"step": number} | further])
    assert words in refusal(tmp_path, study("run", rollouts={"format": "trl"}))


@pytest.mark.parametrize("content", [b"PAR1" + bytes(100), b"\x80\x04cos\nsystem\n(S'touch owned'\ntR."])
def test_a_file_that_is_no_parquet_and_a_pickle_that_is_not_loaded(tmp_path, content):
    (tmp_path / "run.parquet").write_bytes(content)
    assert "not a readable Parquet file" in refusal(tmp_path, study("run.parquet"))
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollouts": {"format": "pickle"}}, "rollouts.format: 'pickle' is no format of rollouts; formats here: trl"),
        ({"primary": {"metric": "correct"}}, "primary: nothing is evaluated"),
        (
            {"claims": {"c": {"says": "x", "metric": "correct", "arm": "full", "direction": "higher"}}},
            "claims.c: nothing is evaluated",
        ),
        ({"golds": GOLDS}, "golds: golds.jsonl: no prompt of"),
        ({"components": {"b": LENGTH}}, "components.b: token_length asks for completion_ids, which imported runs do"),
        ({"components": {"b": {"function": "correctness"}}}, "asks for answer, but 1 of 1 completions have no gold"),
        ({"components": {"a": {"function": "boxed_answer"}}}, "has scores of that name; give the component another"),
        ({"evaluation": {"format": "table", "runs": {"full": "x"}}}, "evaluation.runs.full: base has one path"),
        (
            {"evaluation": {**ANSWERS, "columns": {**ANSWERS["columns"], "metrics": {"correct": "step"}}}},
            "evaluation.columns.metrics.correct: columns.correct is that already; give it another name",
        ),
        ({"name": "tables"}, "name: results/tables is a folder of the default study; give the study another name"),
        ({"rollouts": {"format": "table", "columns": {**COLUMNS, "scores": {"total": "score"}}}}, "is called 'total'"),
    ],
)
def test_keys_that_are_wrong(tmp_path, changes, words):
    write_rows(tmp_path / "run.jsonl", [ROW])
    write_rows(tmp_path / "golds.jsonl", [{"k": "other", "a": "1"}])
    assert words in refusal(tmp_path, study("run.jsonl", **changes))


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ({"weights": {}}, "arms.runs.full.weights: no weight of a; give 0"),
        ({"weights": {"a": 1.0}, "seeds": [0]}, "arms.runs.full.seeds: give each seed its path"),
        (
            {"weights": {"a": 1.0}, "seeds": [0], "rollouts": {"format": "verl", "path": "v"}},
            "arms.runs.full.rollouts.path for one table with all runs",
        ),
        ({"seeds": {0: "tracked"}, "rollouts": {"format": "reward_ablation"}}, "run.json: TRL's trainer ran it; read"),
        ({"weights": {"a": 1.0}, "seeds": {8: "a", "8": "b"}}, "seed 8 occurs twice, as a number and as a text; take "),
    ],
)
def test_runs_that_are_named_wrongly(tmp_path, arm, words):
    write_rows(tmp_path / "run.jsonl", [ROW])
    write_rows(tmp_path / "tracked" / "run.jsonl", [])
    (tmp_path / "tracked" / "run.json").write_text('{"tracked": true}')
    written = study("run.jsonl")
    written["arms"]["runs"]["full"] = {"seeds": {0: "run.jsonl"}, **arm}
    assert words in refusal(tmp_path, written)


def test_the_folder_of_a_trained_study_is_refused(tmp_path):
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(StudyError, match="has the results of a trained study"):
        is_current(tmp_path, {})


def test_an_import_that_fails_leaves_the_earlier_one_as_it_was(tmp_path):
    write_rows(tmp_path / "run.jsonl", [ROW])
    folder = imported(tmp_path, study("run.jsonl"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_rows(tmp_path / "run.jsonl", [ROW, ROW | {"score": None, "completion": None}])
    refusal(tmp_path, study("run.jsonl"))
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_component_that_changes_while_runs_are_read(tmp_path, monkeypatch):
    own = tmp_path / "own.py"
    own.write_text("def own(completions, **columns):\n    return [1.0 for _ in completions]\n")
    write_rows(tmp_path / "run.jsonl", [ROW])
    read_run = results.read_run

    def edited(*given):
        own.write_text(own.read_text().replace("1.0", "2.0"))
        return read_run(*given)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(results, "read_run", edited)
    written = study("run.jsonl", components={"own": {"function": "own.py:own"}})
    assert "own.py: the file, or one that it imports, has changed since" in refusal(tmp_path, written)


def test_sentences_say_how_many_runs_a_table_has_and_where_it_has_no_total(tmp_path):
    rows = [ROW | {"total": 1.0}, ROW | {"total": None}, ROW | {"score": None, "total": None}, ROW | {"arm": "fulll"}]
    write_rows(tmp_path / "all.jsonl", [{"arm": "full", "seed": 0, "total": None, **row} for row in rows])
    columns = COLUMNS | {"arm": "arm", "seed": "seed", "total": "total"}
    written = study("", rollouts={"format": "table", "path": "all.jsonl", "columns": columns})
    written["arms"]["runs"]["full"]["seeds"] = [0]
    sentences = json.loads((imported(tmp_path, written) / "study.json").read_text())["imported"]
    assert "full: all.jsonl has 2 runs; those that the YAML does not name are left out." in sentences
    words = "full: 1 of 3 completions have scores and no total; they have no part in what is said of it."
    assert words in sentences
