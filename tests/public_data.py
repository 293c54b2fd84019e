"""Public data sets beside the repository. If they are missing, made-up rows with the same columns replace them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import made_up_data

COPIES = Path(__file__).resolve().parents[2] / "shared" / "data"


@cache
def _made_up_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of made-up files, which is deleted when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="made-up-data-")
    made_up_data.write_all(Path(folder.name))
    return folder


def data_file(name: str) -> Path:
    """Path of a JSON Lines file: the public one, or a made-up one with the same columns and the same number of rows."""
    return COPIES / name if (COPIES / name).is_file() else Path(_made_up_folder().name) / name


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in data_file(name).read_text().splitlines()]


def gsm8k_gold(row: dict[str, Any]) -> str:
    """What follows the one ``####`` of a GSM8K solution."""
    return row["answer"].split("\n#### ")[1]
