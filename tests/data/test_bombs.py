"""Small files whose content needs more memory than a set of problems may take."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.data import __main__ as command
from reward_ablation.system.errors import StudyError


def equal_texts(path):
    """256 MiB: a dictionary with one text of 1 MiB, and 256 rows that refer to it; refused by pyarrow."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"question": column, "answer": ["1"] * 256}), path, compression="zstd")


def many_objects(path):
    """64 bytes of memory for three in the file."""
    path.write_text("[" + "{}," * 2_600_000 + "{}]")


@pytest.mark.parametrize(("name", "bomb"), [("a.parquet", equal_texts), ("a.json", many_objects)])
def test_a_file_whose_content_takes_too_much_memory_is_one_line(tmp_path, monkeypatch, name, bomb):
    bomb(tmp_path / name)
    monkeypatch.setattr(command, "MOST_MEMORY", 2**26)
    spec = json.dumps({"source": {"source": "file", "path": str(tmp_path / name)}})
    message = r"^train: the data takes more than 0\.0625 GiB of memory; leave out the columns and rows that the study"
    with pytest.raises(StudyError, match=message):
        command.main(["--spec", spec, "--name", "train", "--output", str(tmp_path / "out.parquet")])
    assert not (tmp_path / "out.parquet").exists()
