"""Public data sets beside the repository; tests that need them are skipped where they are absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def rows(name: str) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file, or skip the test with the reason."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"{name} is not at ../shared/data")
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def gsm8k_gold(row: dict[str, Any]) -> str:
    """What follows the one ``####`` of a GSM8K solution."""
    return row["answer"].split("\n#### ")[1]
