"""inspect-ai: logs of an evaluation, `.json`, or `.eval`, which is a zip with a JSON entry for each sample.

`reward-ablation import` calls `read_answers` for answers in the format `inspect`.

Entries of a zip are unpacked in memory only, up to the announced size, which has a bound. Their names open no path.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import found, json_object
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row
from reward_ablation.imported.rows import Answers
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.strict_text import load_json

#: The log's version, the same since 2024.
VERSION = 2

#: Largest entry, and largest sum of all entries, in bytes when unpacked. A sample's entry has all its events.
LARGEST_ENTRY, LARGEST_LOG = 64 << 20, 8 << 30

#: Compression of today's logs. Python's zipfile lacks Zstandard before 3.14; Arrow has it.
ZSTANDARD = 93

#: Entries of samples.
SAMPLES = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)

#: inspect's letters for correct, incorrect, partially correct and no answer.
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def read_answers(path: Path, options: Row) -> Answers:
    """Answers of one log. An epoch is a sample, and a metric is a scorer's value."""
    chosen = validate_spec(common.AnswerOptions, options, "evaluation")
    file = common.one_file(path, found(path, "*.eval", "*.json"))
    entries = _entries(file) if file.suffix == ".eval" else {}
    head = _entry(file, entries["header.json"]) if entries else Record(json_object(file), str(file))
    if head["version"] != VERSION:
        raise StudyError(
            f"{file}: log version {head['version']!r:.20}; only {VERSION} is read: run inspect log convert"
        )
    if head["status"] != "success":
        raise StudyError(
            f"{file}: the evaluation's status is {head['status']!r:.20}; finish it with inspect eval-retry"
        )
    missing: list[str] = []
    mode = common.mode_of(_mode(head), chosen, missing)
    named = [entry for name, entry in entries.items() if SAMPLES.fullmatch(name)]
    samples = (_entry(file, entry) for entry in named) if entries else head.each("samples")
    return common.answers(file, [{**_row(sample), "mode": mode} for sample in samples], chosen.metric, missing)


def _entries(file: Path) -> dict[str, ZipInfo]:
    """The entries of a zip, by name; refused if the log is damaged, unfinished, in chunks or too large."""
    try:
        with ZipFile(file) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
    except (BadZipFile, OSError, ValueError, struct.error) as error:
        raise StudyError(f"{file}: not a readable .eval log: {first_line(error)}; copy it again") from None
    if "header.json" not in entries:
        raise StudyError(f"{file}: no header.json in it: the evaluation did not end; finish it with inspect eval-retry")
    if any(name.endswith("/sample.json") for name in entries):
        raise StudyError(f"{file}: its samples are in chunks; name the log from which this one was converted")
    if sum(entry.file_size for entry in entries.values()) > LARGEST_LOG:
        raise StudyError(f"{file}: more than {LARGEST_LOG >> 30} GB when unpacked; export the answers as a table")
    return entries


def _entry(file: Path, entry: ZipInfo) -> Record:
    """The JSON object of an entry."""
    where = f"{file}: {entry.filename}"
    if entry.file_size > LARGEST_ENTRY:
        raise StudyError(f"{where}: more than {LARGEST_ENTRY >> 20} MB when unpacked; export the answers as a table")
    try:
        unpacked = _unpacked(file, entry)
        if len(unpacked) != entry.file_size or zlib.crc32(unpacked) != entry.CRC:
            raise BadZipFile("other bytes than the zip announces")
    except (BadZipFile, RuntimeError, OSError, EOFError, struct.error, zlib.error, pa.ArrowException) as error:
        raise StudyError(f"{where}: cannot be unpacked: {first_line(error)}; copy the log again") from None
    try:
        return Record(load_json(unpacked), where)
    except ValueError as error:
        raise StudyError(f"{where}: {first_line(error)}; copy the log again") from None


def _unpacked(file: Path, entry: ZipInfo) -> bytes:
    """At most one byte more than announced, so that a zip bomb shows without being unpacked."""
    if entry.compress_type != ZSTANDARD:
        with ZipFile(file) as archive, archive.open(entry) as member:
            return member.read(entry.file_size + 1)
    with file.open("rb") as stream:
        stream.seek(entry.header_offset)
        name, extra = struct.unpack("<26xHH", stream.read(30))  # lengths, from the entry's own header
        stream.seek(name + extra, 1)
        packed = pa.BufferReader(stream.read(entry.compress_size))
    with pa.CompressedInputStream(packed, "zstd") as member:
        return bytes(member.read(entry.file_size + 1))


def _mode(head: Record) -> str | None:
    """Greedy at temperature 0; unknown where the log leaves the temperature to the model's provider."""
    for setting in (head.inner("plan").inner("config"), head.inner("eval").inner("model_generate_config")):
        if setting.value.get("temperature") is not None:
            return "sampled" if setting.score("temperature") else "greedy"
    return None


def _row(sample: Record) -> Row:
    target, metadata, output = sample["target"], sample.inner("metadata"), sample.inner("output")
    tokens, reasons = output.inner("usage"), [choice.value.get("stop_reason") for choice in output.each("choices")]
    return {
        "problem_id": sample.label("id") or sample.text("id"),
        "question": common.plain_text(sample["input"]),
        "gold": "; ".join(map(str, target)) if isinstance(target, list) else sample.text("target"),
        "level": metadata.label("level"),
        "subject": metadata.label("subject"),
        "sample": sample.whole("epoch") - 1,
        "completion": output.label("completion"),
        "tokens": tokens.score("output_tokens") if tokens.value else None,
        "truncated": reasons[0] in ("max_tokens", "model_length") if reasons else None,
        "scores": {} if sample.value.get("invalidation") else dict(_scores(sample.inner("scores"))),
    }


def _scores(scores: Record) -> Iterator[tuple[str, float]]:
    """The scores that are numbers; one with several values is SCORE/VALUE. NaN is inspect's mark of "not scored"."""
    for scorer in scores.value:
        value = scores.inner(scorer)["value"]
        for part, single in value.items() if isinstance(value, dict) else [("", value)]:
            single = LETTERS.get(single, single) if isinstance(single, str) else single
            single = math.nan if single is None else single
            if isinstance(single, bool | int | float):
                yield f"{scorer}/{part}" if part else scorer, float(single)
