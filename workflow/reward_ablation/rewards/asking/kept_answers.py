"""Scores from an endpoint, kept in files so that no request is sent twice.

Each process appends to its own file, and all processes read all files. No file has two writers, because the file
systems of clusters cannot be trusted with two. A run needs one file; one file per answer would use up a quota of files.
Each answer is written as soon as it arrives, so that a killed process loses only the requests in flight. The line that
a killed process was writing has no end, and is not read.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from pathlib import Path


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
