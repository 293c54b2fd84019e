"""Checkpoints of an interrupted run: used only for the very same spec and code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from transformers.trainer_utils import get_last_checkpoint

from reward_ablation.study.files import write_json

OWNER = "owner.json"


def claim(folder: Path, spec: str, code: str) -> Path | None:
    """Make the work folder this run's own, and find the checkpoint to go on from.

    Work of another spec or other code is wiped: it would end in another result.

    Parameters
    ----------
    folder : Path
        Holds `checkpoint-N` folders and the parts of the run's tables.
    spec : str
        The run's canonical spec, seed included.
    code : str
        Digest of the code that trains it.

    Returns
    -------
    Path or None
        The last checkpoint, or None to start from the beginning.
    """
    owner = {"spec": json.loads(spec), "code": code}
    record = folder / OWNER
    if not record.is_file() or json.loads(record.read_text()) != owner:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_json(owner, record)
    last = get_last_checkpoint(str(folder))
    return Path(last) if last else None


def step_of(checkpoint: Path | None) -> int:
    """Optimiser steps that a checkpoint has behind it; 0 for none."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
