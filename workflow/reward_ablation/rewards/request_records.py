"""Records of requests to endpoints: answers that are kept, and counts of requests and tokens for the cost report.

The program that scores sets the folders. Each process appends kept scores to its own file, and all processes read all
files. No file has two writers, because the file systems of clusters cannot be trusted with two. A run needs one file;
one file per answer would use up a quota of files. Each answer is written as soon as it arrives, so that a killed
process loses only the requests in flight. The line that it was writing has no end, and is not read.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json

#: What is counted: requests sent, with retries; answers kept from earlier requests; retries; distinct requests without
#: an answer; and tokens as the endpoint counts them.
COUNTS = ("requests", "kept", "retries", "unanswered", "prompt_tokens", "completion_tokens")

Usage = dict[str, dict[str, int]]


class _Here:
    """The folders of this process."""

    answers: Path | None = None
    counts: Path | None = None


@contextmanager
def asking(answers: Path | None, counts: Path | None) -> Iterator[None]:
    """Keep answers and count requests in these folders for the length of a `with` block.

    All programs of a study share the folder of answers, so that no request is sent twice. The folder of counts is that
    of one run or one scoring, and `counted` reads it. None keeps no answers, or counts nothing.
    """
    before = _Here.answers, _Here.counts
    _Here.answers, _Here.counts = answers, counts
    try:
        yield
    finally:
        _Here.answers, _Here.counts = before


def answers_folder() -> Path | None:
    """Folder in which answers are kept; None if none was set."""
    return _Here.answers


def counts_folder() -> Path | None:
    """Folder in which requests are counted; None if none was set."""
    return _Here.counts


class KeptAnswers:
    """Scores by the digest of their request, kept in a folder.

    The folder holds the requests to one judge. It need not exist yet.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._scores: dict[bytes, float] = {}
        self._read: dict[str, int] = {}
        self._file: int | None = None
        self._process = os.getpid()

    def refresh(self) -> None:
        """Read what all processes have written since the last call."""
        try:
            entries = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".jsonl")]
        except FileNotFoundError:
            return
        for entry in sorted(entries, key=lambda entry: entry.name):
            with open(entry.path, "rb") as file:
                file.seek(start := self._read.get(entry.name, 0))
                whole = file.read().rpartition(b"\n")
            self._read[entry.name] = start + len(whole[0]) + len(whole[1])
            for line in whole[0].splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        """Store the score in a line, unless the line is damaged. The first score of a request stays."""
        try:
            written = json.loads(line)
            key, score = bytes.fromhex(written["request"]), float(written["score"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return
        if math.isfinite(score):
            self._scores.setdefault(key, score)

    def get(self, request: str) -> float | None:
        """The score of a request, by the request's digest in hex; None if no process has kept a score."""
        return self._scores.get(bytes.fromhex(request))

    def put(self, request: str, score: float) -> None:
        """Keep the score of a request. An OSError, such as from a full disk, passes to the caller."""
        self._scores.setdefault(bytes.fromhex(request), score)
        line = json.dumps({"request": request, "score": score}) + "\n"
        os.write(self._own_file(), line.encode())

    def _own_file(self) -> int:
        if self._file is None or self._process != os.getpid():
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{uuid.uuid4().hex}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
            self._process = os.getpid()
        return self._file


class _Process:
    """Counts of this process by folder and model, the name of its files, and its process id."""

    counts: dict[Path, dict[str, Counter[str]]] = {}  # noqa: RUF012
    name = ""
    id = 0


def count(folder: Path, model: str, numbers: Mapping[str, int]) -> None:
    """Add numbers to the counts of a model, and write this process's file in a folder."""
    if _Process.id != os.getpid():
        _Process.counts, _Process.name, _Process.id = {}, uuid.uuid4().hex, os.getpid()
    models = _Process.counts.setdefault(folder, {})
    models.setdefault(model, Counter()).update(numbers)
    write_json({name: dict(counter) for name, counter in models.items()}, folder / f"{_Process.name}.json", False)


def counted(folder: Path) -> Usage:
    """Sums by model over all processes that have counted in a folder; empty if there are none."""
    sums: dict[str, Counter[str]] = {}
    for path in sorted(folder.glob("*.json")):
        for model, numbers in _read(path).items():
            sums.setdefault(model, Counter()).update(numbers)
    return {model: {name: sums[model][name] for name in COUNTS} for model in sorted(sums)}


def _read(path: Path) -> Usage:
    """Counts of one process; empty if a power cut left half a file."""
    try:
        counts: Usage = load_json(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return counts
