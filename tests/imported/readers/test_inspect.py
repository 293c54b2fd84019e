"""inspect-ai: logs that it wrote, variants of them, and zips that mean harm."""

import json
import math
import struct
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from reward_ablation.imported.readers import inspect
from reward_ablation.imported.readers.inspect import read_answers
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files" / "inspect"
LOG = json.loads((FILES / "sums.json").read_text())


def written(folder, head=None, samples=None, compression=ZIP_DEFLATED):
    """A log as inspect wrote it, with other fields: as JSON, or as a zip if there is a compression."""
    log = {**LOG, **(head or {})}
    samples = [{**LOG["samples"][0], **sample} for sample in samples or [{}]]
    if compression is None:
        (folder / "x.json").write_text(json.dumps({**log, "samples": samples}))
        return folder / "x.json"
    with ZipFile(folder / "x.eval", "w", compression) as archive:
        archive.writestr("header.json", json.dumps({name: log[name] for name in log if name != "samples"}))
        for number, sample in enumerate(samples):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return folder / "x.eval"


@pytest.mark.parametrize(("name", "epochs"), [("sums.eval", 2), ("sums.json", 1)])
def test_logs_that_inspect_wrote(name, epochs):
    answers = read_answers(FILES / name, {"metric": "match"})
    rows = {(row["problem_id"], row["sample"]): row for row in checked("answers", answers.table, name).to_pylist()}
    assert set(rows) == {(problem, epoch) for problem in ("two-three", "cat") for epoch in range(epochs)}
    expected = {
        ("two-three", 0): ("It is 5", True, 1 / 3),
        ("cat", 0): ("A cat has 4", True, 0.25),
        ("two-three", 1): ("No idea?", False, None),  # inspect's NaN: not scored
        ("cat", 1): ("4", True, 1.0),
    }
    for place, row in rows.items():
        brevity = None if math.isnan(row["brevity"]) else row["brevity"]
        assert (row["completion"], row["correct"], brevity) == expected[place]
    assert [row["tokens"] for row in rows.values()] == [3.0] * 2 * epochs
    assert [row["truncated"] for row in rows.values()] == [0.0] * 2 * epochs
    assert rows["cat", 0] | {"level": "1", "subject": "animals", "mode": "sampled", "gold": "4"} == rows["cat", 0]
    assert answers.missing == []


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"scores": {"s": {"value": "P"}}}, {"correct": False, "s": 0.5}),
        ({"scores": {"s": {"value": {"a": "C", "b": "word"}}}}, {"correct": True}),  # a word is no number
        ({"input": [{"role": "user", "content": [{"text": "q"}, {"type": "image"}]}]}, {"question": "q\n\n[image]"}),
        ({"output": {"choices": [{"stop_reason": "max_tokens"}], "usage": None}}, {"truncated": 1, "completion": None}),
        ({"id": 7, "target": ["a", "b"]}, {"problem_id": "7", "gold": "a; b"}),
    ],
)
def test_samples(fields, row, tmp_path):
    sample = {"scores": {"match": {"value": "C"}}} | fields
    found = read_answers(written(tmp_path, samples=[sample], compression=ZIP_STORED), {}).table.to_pylist()[0]
    assert {name: found[name] for name in row} == row


@pytest.mark.parametrize(
    ("head", "sample", "message"),
    [
        ({"version": 3}, {}, "log version 3; only 2 is read: run inspect log convert"),
        ({"status": "error"}, {}, "status is 'error'; finish it with inspect eval-retry"),
        ({}, {"id": None}, "id is a NoneType"),
        ({}, {"scores": {}}, "0 metrics"),
        ({}, {"invalidation": {"author": "me"}}, "0 metrics"),
    ],
)
def test_refused(head, sample, message, tmp_path):
    with pytest.raises(StudyError, match=message):
        read_answers(written(tmp_path, head, [sample], None), {})


def announced(data, name, size):
    """A zip's bytes whose directory gives another unpacked size for an entry."""
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
    return data[: at + 24] + struct.pack("<I", size) + data[at + 28 :]


@pytest.mark.parametrize("name", ["zstd", "deflated"])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (100, "cannot be unpacked: (other bytes than the zip announces|Bad CRC-32)"),  # unpacks to more: a bomb
        (1 << 20, "cannot be unpacked: other bytes than the zip announces"),
        (65 << 20, "more than 64 MB when unpacked"),
    ],
)
def test_a_bomb_is_not_unpacked(name, size, message, tmp_path):
    file = FILES / "sums.eval" if name == "zstd" else written(tmp_path)
    entry = b"samples/cat_epoch_1.json" if name == "zstd" else b"samples/0_epoch_1.json"
    bomb = tmp_path / "bomb.eval"
    bomb.write_bytes(announced(file.read_bytes(), entry, size))
    with pytest.raises(StudyError, match=f"{entry.decode()}: {message}"):
        read_answers(bomb, {"metric": "match"})


def test_names_in_a_zip_are_no_paths(tmp_path, monkeypatch):
    """An entry with the name of a path outside is read as a sample or not at all, and nothing is written."""
    file = written(tmp_path)
    with ZipFile(file, "a") as archive:
        archive.writestr("samples/../../../evil_epoch_1.json", json.dumps({**LOG["samples"][1], "id": "evil"}))
        archive.writestr("/evil.json", "{}")
    assert read_answers(file, {"metric": "match"}).table["problem_id"].to_pylist() == [LOG["samples"][0]["id"], "evil"]
    assert [path.name for path in tmp_path.rglob("*")] == ["x.eval"]
    monkeypatch.setattr(inspect, "LARGEST_LOG", 1000)
    with pytest.raises(StudyError, match="when unpacked; export the answers as a table"):
        read_answers(file, {})


def test_answers_that_were_not_scored_are_left_out_and_epochs_at_temperature_0_have_a_mean(tmp_path):
    answers = read_answers(FILES / "sums.eval", {"metric": "brevity"})
    assert answers.table["correct"].to_pylist().count(True) == 1
    assert answers.missing == [
        "1 of 4 answers have no brevity and are left out.",
        "brevity has values beside 0 and 1; an answer is correct only where it is 1.",
    ]
    epochs = [{"scores": {"match": {"value": "C"}}, "epoch": epoch} for epoch in (1, 2)]
    answers = read_answers(written(tmp_path, {"plan": {"config": {"temperature": 0}}}, epochs), {})
    assert answers.table["mode"].to_pylist() == ["greedy"] * 2
    assert answers.missing == ["Questions have several greedy answers, one for each epoch; a question has their mean."]
    (words,) = read_answers(written(tmp_path, {"plan": {}}), {"metric": "match"}).missing
    assert words.startswith("The files do not say how answers were drawn; they count as greedy")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.eval", b"no zip", "not a readable .eval log: File is not a zip file"),
        ("x.json", b"[1]", r"x\.json: a list, not an object"),
        ("x.eval", ["_journal/start.json"], "the evaluation did not end; finish it with inspect eval-retry"),
        ("x.eval", ["header.json", "samples/cat_epoch_1/sample.json"], "its samples are in chunks; name the log from"),
    ],
)
def test_files_refused(name, content, message, tmp_path):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        with ZipFile(tmp_path / name, "w") as archive:
            for entry in content:
                archive.writestr(entry, "{}")
    with pytest.raises(StudyError, match=message):
        read_answers(tmp_path, {})
