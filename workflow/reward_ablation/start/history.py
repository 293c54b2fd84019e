"""What earlier starts of the workflow left in the results folder: finished and interrupted runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.study.answers_record import is_record
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, OWNER, RECORD, SEAL, WORK, step_of_checkpoint
from reward_ablation.system.strict_text import load_json

#: Stands for a record that exists and cannot be read.
BROKEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Interrupted:
    """The work of an unfinished run: what the run is trained with, and how far it is."""

    spec: dict[str, Any]
    code: str
    inputs: dict[str, str]
    modules: dict[str, str]
    #: The step of the last checkpoint; 0 without a checkpoint.
    step: int
    #: Whether a process trains the run now.
    running: bool


@dataclass(frozen=True)
class History:
    """Runs on disk, by `{arm}-{key}/seed{seed}`."""

    #: `run.json` of each finished run, of this study or of other configs.
    records: dict[str, dict[str, Any]]
    #: The hidden copy of `run.json`, of each named run whose `run.json` is missing or cannot be read. Such a run is
    #: finished, and its job puts the record back.
    set_aside: dict[str, dict[str, Any]]
    #: Unfinished runs among the named runs.
    interrupted: dict[str, Interrupted]

    @cached_property
    def arms(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Readable records of finished runs, by arm and by the run's name."""
        arms: dict[str, dict[str, dict[str, Any]]] = {}
        for name, record in self.records.items():
            if record:
                arms.setdefault(arm_of(name), {})[name] = record
        return arms


def arm_of(name: str) -> str:
    """Arm of a run's name, `{arm}-{key}/seed{seed}`."""
    return name.partition("/")[0].rpartition("-")[0]


def read_history(runs: Path, names: Iterable[str]) -> History:
    """Read all finished runs below the folder `runs`, and the unfinished work of the named runs."""
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


def read_record(run: Path, name: str | Path = RECORD) -> dict[str, Any] | None:
    """`run.json`, or another record, in a folder; None where there is none, `BROKEN` where it cannot be read as one."""
    try:
        record = load_json((run / name).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return BROKEN
    return record if is_record(record) else BROKEN


def _read_interrupted(run: Path) -> Interrupted | None:
    """The unfinished work in a run's folder; None where there is none."""
    work = run / WORK
    try:
        owner = load_json((work / OWNER).read_bytes())
        steps = [step_of_checkpoint(name) for name in os.listdir(work) if (work / name / SEAL).is_file()]
        trained_with = (owner["spec"], owner["code"], owner["inputs"], owner["modules"])
        if not is_record(owner):
            return None
        return Interrupted(*trained_with, step=max(steps, default=0), running=is_held(run / LOCK) is True)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_held(lock: Path) -> bool | None:
    """Whether a process holds a lock.

    None where that cannot be known: the lock's file does not exist yet, or the file system has no locks.
    """
    for mode in ("r+b", "rb"):  # NFS locks only a file that is open for writing; nothing is written
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


def _folders_in(folder: Path) -> list[str]:
    """Sorted names of the folders in a folder, without hidden ones. Links to folders count, as for Snakemake."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
