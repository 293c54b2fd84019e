"""Scores that an endpoint has given, kept in files, so that nothing is asked twice.

Each process appends to a file of its own, and all processes read all files. No file has two writers, which file systems
of clusters cannot be trusted with, and one run needs one file, where a file for each answer would use up a quota of
files. An answer is written as soon as it has come: a killed process has lost nothing but the requests in flight. The
line that a killed process was writing has no end, and is not read.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from pathlib import Path


class KeptAnswers:
    """Scores by the digest of their request, in a folder.

    Parameters
    ----------
    folder : Path
        Of all requests to one judge; it need not be there yet.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._scores: dict[bytes, float] = {}
        self._read: dict[str, int] = {}
        self._file: int | None = None
        self._process = os.getpid()

    def refresh(self) -> None:
        """Read what all processes have written since the last time."""
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
        """Take a line, unless it is damaged. The first score of a request stays."""
        try:
            written = json.loads(line)
            key, score = bytes.fromhex(written["request"]), float(written["score"])
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return
        if math.isfinite(score):
            self._scores.setdefault(key, score)

    def get(self, request: str) -> float | None:
        """The score of a request, by its digest in hex; None where no process has kept one."""
        return self._scores.get(bytes.fromhex(request))

    def put(self, request: str, score: float) -> None:
        """Keep the score of a request. An OSError, such as that of a full disk, is the caller's."""
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
