"""Small files whose content needs more memory than a set of problems may take."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.data import __main__ as command
from reward_ablation.system.errors import StudyError

LIMIT = 2**26


def equal_texts(path):
    """256 MiB: a dictionary with one text of 1 MiB, and 256 rows that refer to it."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"question": column, "answer": ["1"] * 256}), path, compression="zstd")


def one_long_list(path):
    """128 MiB of zeros in one row, and more as Python numbers."""
    zeros = pa.ListArray.from_arrays(pa.array([0, 2**24], pa.int32()), pa.array(np.zeros(2**24)))
    pq.write_table(pa.table({"question": ["a"], "answer": ["1"], "further": zeros}), path, compression="zstd")


def nothing_in_many_rows(path):
    """5 million rows of nulls."""
    pq.write_table(pa.table({name: pa.nulls(5_000_000, pa.string()) for name in ("question", "answer")}), path)


@pytest.mark.parametrize("bomb", [equal_texts, one_long_list, nothing_in_many_rows])
def test_a_small_parquet_file_with_huge_content_is_one_line(tmp_path, monkeypatch, bomb):
    bomb(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    refused(tmp_path / "a.parquet", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("name", "head", "repeated", "end"),
    [
        ("a.jsonl", '{"answer": "1", "question": "', "x", '"}\n'),  # one line of 60 MB
        ("a.csv", 'answer,question\n1,"', "x", '"\n'),
        ("a.json", "[", "{}," * 10, "{}]"),  # 64 bytes of memory for three in the file
    ],
)
def test_a_large_text_file_is_one_line(tmp_path, monkeypatch, name, head, repeated, end):
    size = 60_000_000 if name != "a.json" else 8_000_000
    (tmp_path / name).write_text(head + repeated * (size // len(repeated)) + end)
    refused(tmp_path / name, tmp_path, monkeypatch)


def refused(path, folder, monkeypatch):
    monkeypatch.setattr(command, "MOST_MEMORY", LIMIT)
    spec = json.dumps({"source": {"source": "file", "path": str(path)}})
    with pytest.raises(StudyError) as caught:
        command.main(["--spec", spec, "--name", "train", "--output", str(folder / "out.parquet")])
    assert str(caught.value) == (
        "train: the data takes more than 0.0625 GiB of memory; "
        "leave out the columns and rows that the study does not use"
    )
    assert not (folder / "out.parquet").exists()
