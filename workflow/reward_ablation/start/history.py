"""What earlier starts of the workflow left in the results folder: finished runs, and runs that were interrupted."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, OWNER, RECORD, SEAL, WORK, step_of_checkpoint
from reward_ablation.system.files import sha256

#: A record that is there and cannot be read.
BROKEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Interrupted:
    """An unfinished run: whose work it is, and how far it is."""

    spec: dict[str, Any]
    code: str
    inputs: dict[str, str]
    modules: dict[str, str]
    #: The step of the last checkpoint; 0 for none.
    step: int
    #: A process is at work on the run now.
    running: bool


@dataclass(frozen=True)
class History:
    """Runs on disk, by `{arm}-{key}/seed{seed}`."""

    #: `run.json` of each finished run, of this study or of other configs.
    records: dict[str, dict[str, Any]]
    #: The hidden copy of a named run's `run.json` that is missing or cannot be read. Such a run is finished, and its
    #: job puts the record back.
    set_aside: dict[str, dict[str, Any]]
    #: Unfinished runs among those asked for.
    interrupted: dict[str, Interrupted]

    @cached_property
    def arms(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Finished runs by arm and name."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for name, record in self.records.items():
            if record:
                found.setdefault(arm_of(name), {})[name] = record
        return found


def arm_of(name: str) -> str:
    """Arm of a run's name, `{arm}-{key}/seed{seed}`."""
    return name.partition("/")[0].rpartition("-")[0]


def read_history(runs: Path, names: Iterable[str]) -> History:
    """Read all finished runs below `runs/`, and what is unfinished of the named ones."""
    records, set_aside, interrupted = {}, {}, {}
    for folder in _folders_in(runs):
        for seed in _folders_in(runs / folder):
            record = read_record(runs / folder / seed)
            if record is not None:
                records[f"{folder}/{seed}"] = record
    for name in names:
        if not records.get(name) and (runs / name).is_dir():
            if copy := read_record(runs / name, HIDDEN_RECORD):
                set_aside[name] = copy
            if work := _read_interrupted(runs / name):
                interrupted[name] = work
    return History(records, set_aside, interrupted)


def read_record(run: Path, name: str = RECORD) -> dict[str, Any] | None:
    """`run.json` of a run's folder; None where there is none, `BROKEN` where it is not what training writes."""
    try:
        record = json.loads((run / name).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return BROKEN
    return record if isinstance(record, dict) else BROKEN


def _read_interrupted(run: Path) -> Interrupted | None:
    """The unfinished work in a run's folder; None where there is none."""
    work = run / WORK
    try:
        owner = json.loads((work / OWNER).read_bytes())
        steps = [step_of_checkpoint(name) for name in os.listdir(work) if (work / name / SEAL).is_file()]
        whose = (owner["spec"], owner["code"], owner["inputs"], owner["modules"])
        return Interrupted(*whose, step=max(steps, default=0), running=is_held(run / LOCK) is True)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_held(lock: Path) -> bool | None:
    """Whether a process holds a lock; None where that cannot be known: nobody had it yet, or no locks are there."""
    for mode in ("r+b", "rb"):  # NFS locks only what may be written; nothing is
        try:
            with lock.open(mode) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def digest_where_present(path: Path) -> str | None:
    """SHA-256 of a file; None where there is none."""
    try:
        return sha256(path)
    except FileNotFoundError:
        return None


def _folders_in(folder: Path) -> list[str]:
    """Names of the folders in one, sorted, hidden ones left out; a link to a folder is one, as it is to Snakemake."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
