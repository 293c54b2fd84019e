"""Keys under which runs were trained that were taken over with other components of weight 0 (`start.rescore`).

A question names its arms by keys. By the key under which an arm was trained, it stays the question that was declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reward_ablation.study.answers_record import read_record
from reward_ablation.system.files import write_json

#: In the results folder: the key under which an arm was trained, by its key.
TRAINED_KEYS = ".trained_keys.json"


def trained_keys(results: Path, keys: Mapping[str, str]) -> dict[str, str]:
    """The keys of arms, by their names, as their runs were trained."""
    known = read_record(results / TRAINED_KEYS)
    return {arm: str(known.get(key, key)) for arm, key in keys.items()}


def remember_keys(results: Path, keys: Mapping[str, str]) -> None:
    """Record the key under which an arm was trained, by its present key."""
    if keys:
        known = read_record(results / TRAINED_KEYS)
        write_json({**known, **{new: known.get(old, old) for new, old in keys.items()}}, results / TRAINED_KEYS)
