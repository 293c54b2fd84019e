"""Requests to endpoints and their tokens, counted by model."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from reward_ablation.system.files import write_json
from reward_ablation.system.strict_text import load_json

#: What is counted: requests sent, answers kept from earlier requests, retries, completions without an answer, and
#: tokens as the endpoint counts them.
COUNTS = ("requests", "kept", "retries", "unanswered", "prompt_tokens", "completion_tokens")

Usage = dict[str, dict[str, int]]


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
