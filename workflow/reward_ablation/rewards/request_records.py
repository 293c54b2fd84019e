"""Records of requests to endpoints: answers that are kept, and counts of requests and tokens for the cost report.

`endpoint` writes them. Training and the rule `score` set the folders, and read the counts at their end. Each process
appends kept scores to its own file, and all processes read all files. No file has two writers, because the file systems
of clusters cannot be trusted with two. One file per answer would use up a quota of files. Each answer is written as
soon as it arrives: a killed process loses only the requests in flight. Its last line may have no end, and is not read.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json

#: What is counted: requests sent, with retries; answers kept from earlier requests; retries; distinct requests without
#: an answer; and tokens as the endpoint counts them.
COUNTS = ("requests", "kept", "retries", "unanswered", "prompt_tokens", "completion_tokens")

Usage = dict[str, dict[str, int]]
#: Folders of kept answers and of counts, of each `with` block of this process.
_folders: list[tuple[Path | None, Path | None]] = [(None, None)]


@contextmanager
def asking(answers: Path | None, counts: Path | None) -> Iterator[None]:
    """Keep answers, of the whole study, and counts, of one run or scoring, in these folders within a `with` block."""
    _folders.append((answers, counts))
    try:
        yield
    finally:
        _folders.pop()


def folders() -> tuple[Path | None, Path | None]:
    """Folders in which this process keeps answers, and counts requests; None where none was set."""
    return _folders[-1]


class KeptAnswers:
    """Scores of one judge by the digest of their request. With a folder they are kept there; it need not exist yet."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._scores: dict[str, float] = {}
        self._read: dict[str, int] = {}  # bytes of each file

    def refresh(self) -> None:
        """Read what all processes have written since the last call."""
        for path in sorted(self.folder.glob("*.jsonl")) if self.folder else ():
            with path.open("rb") as file:
                file.seek(start := self._read.get(path.name, 0))
                lines, end, _ = file.read().rpartition(b"\n")
            self._read[path.name] = start + len(lines) + len(end)
            for line in lines.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        """Store the score in a line, unless the line is damaged. The first score of a request stays."""
        try:
            written = json.loads(line)
            request, score = str(written["request"]), float(written["score"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return
        if math.isfinite(score):
            self._scores.setdefault(request, score)

    def get(self, request: str) -> float | None:
        """The score of a request, by the request's digest; None if no process has kept a score."""
        return self._scores.get(request)

    def put(self, request: str, score: float) -> None:
        """Keep the score of a request. An OSError, such as from a full disk, passes to the caller."""
        self._scores.setdefault(request, score)
        if self.folder:
            line = json.dumps({"request": request, "score": score}) + "\n"
            os.write(_own_file(self.folder, os.getpid()), line.encode())


@cache
def _own_file(folder: Path, process: int) -> int:
    """The file of this process, which must not be a forked child's as well."""
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / f"{uuid.uuid4().hex}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)


def count(folder: Path, model: str, numbers: Mapping[str, int]) -> None:
    """Add numbers to the counts of a model, and write this process's file in a folder."""
    path, models = _own_counts(folder, os.getpid())
    models.setdefault(model, Counter()).update(numbers)
    write_json(models, path, False)  # not flushed to disk: `counted` skips a file that a power cut damaged


@cache
def _own_counts(folder: Path, process: int) -> tuple[Path, dict[str, Counter[str]]]:
    """The file and the counts of this process, by model."""
    return folder / f"{uuid.uuid4().hex}.json", {}


def counted(folder: Path) -> Usage:
    """Sums by model over all processes that have counted in a folder; empty if there are none."""
    sums: dict[str, Counter[str]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            counts: Usage = load_json(path.read_text(encoding="utf-8"))
        except ValueError:  # a power cut left half a file
            continue
        for model, numbers in counts.items():
            sums.setdefault(model, Counter()).update(numbers)
    return {model: {name: sums[model][name] for name in COUNTS} for model in sorted(sums)}
