"""Truncated and changed files are refused in one line before they are used."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis.made_up import MadeUpStudy, write_tables
from reward_ablation.analysis.reading import read_parquet, read_rows, read_table
from reward_ablation.system.errors import StudyError

RUN = "runs/first-00000000/seed1"
ANSWERS = "evaluation/first-00000000/seed1/gsm8k_test.parquet"


@pytest.fixture
def root(tmp_path) -> Path:
    MadeUpStudy(arms={"first": {"a": 1.0}, "second": {"a": 2.0}}, steps=4, rollouts=2).write(tmp_path)
    return tmp_path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    """One bit: of Parquet in the middle of the first column's values, of JSON in a character."""
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    if path.suffix == ".parquet":
        column = pq.read_metadata(path).row_group(0).column(0)
        place = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size // 2
    content[place] ^= 0x80
    path.write_bytes(content)


RERUN = f"delete {{root}}/{RUN} and run the workflow again, which trains it again"


@pytest.mark.parametrize(
    ("rule", "name", "damage", "remedy"),
    [
        ("training", f"{RUN}/rollouts.parquet", flip, RERUN),
        ("gradients", f"{RUN}/gradients.parquet", truncate, RERUN),
        ("training", f"{RUN}/run.json", truncate, RERUN),
        ("evaluation", ANSWERS, flip, "delete it and run the workflow again"),
    ],
)
def test_the_analysis_names_a_damaged_file(root, rule, name, damage, remedy):
    damage(root / name)
    with pytest.raises(StudyError) as error:
        write_tables(root, rules=[rule])
    assert str(error.value).startswith(f"{root / name}: truncated or changed")
    assert str(error.value).endswith(remedy.format(root=root))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda path: read_rows(path, ["a", "nope"], pc.field("a") == 1), "(no column nope)"),
        (lambda path: read_parquet(path, ["a"], ["nope"]), "(no column nope)"),
        (lambda path: read_table(path.with_suffix(".csv")), "(Error tokenizing data. C error: Expected 1 fields"),
    ],
)
def test_a_reader_names_what_is_wrong_in_one_line(tmp_path, read, told):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "table.csv").write_text("a\n1\n1,2\n")
    with pytest.raises(StudyError) as error:
        read(tmp_path / "table.parquet")
    assert told in str(error.value)
    assert str(error.value).endswith("; delete it and run the workflow again")
    assert "\n" not in str(error.value)


def test_arms_with_names_that_pandas_reads_as_missing_are_read_by_their_names(tmp_path):
    (tmp_path / "table.csv").write_text("arm,value\nNone,1\nNA,\nnull,2\n")
    table = read_table(tmp_path / "table.csv")
    assert [*table["arm"]] == ["None", "NA", "null"]
    assert [*table["value"].isna()] == [False, True, False]
