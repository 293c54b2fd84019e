"""Checkpoints of a run or supervised start: sealed when complete, checked before use, used for the same spec and code.

The seal of a folder is the file `checksums.json`. It holds the digests of the folder's files and of the parts, the
small files that a run's tables are joined from, up to the folder's step. The seal is written last, when all these files
are on disk. A folder without a seal is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import dump
from reward_ablation.study.core_digest import checkpoint_code
from reward_ablation.study.run_folder import OWNER, SEAL, step_of_checkpoint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import flush_to_disk, sha256, write_json
from reward_ablation.training.around.parts import drop_parts_after, parts_until

SET_ASIDE = "set_aside"  # folder for damaged checkpoints and parts, which are not used again
#: Number of checkpoints to keep: the last one, and the one before it in case the last is damaged. A study may set
#: another number.
KEPT_CHECKPOINTS = 2


def claim(work: Path, owner: dict[str, Any], modules: dict[str, str]) -> None:
    """Assign the work folder to this run. The work of a different run is removed: it would lead to another result.

    `owner` is everything that decides the result: the run's `spec` with its seed, and digests of the training `code`
    and of `inputs`. Of `modules`, the digests of those that checkpoints depend on must be equal, too. Raises StudyError
    if there are checkpoints, and the file that says whose they are cannot be read.
    """
    record = read_json(work / OWNER)
    if record is None and checkpoints(work):
        raise StudyError(
            f"{work / OWNER}: truncated or changed; it said which run this work belongs to; delete {work} to start anew"
        )
    if record is not None and _whose(record) == _whose({**owner, "modules": modules}):
        return
    if work.exists():
        if checkpoints(work):
            print("train: what an earlier attempt left is of other code, data or settings: starting anew", flush=True)
        old = work.with_name(f"{work.name}.tmp")  # in one move: a half-deleted folder would have no owner
        shutil.rmtree(old, ignore_errors=True)
        os.replace(work, old)
        shutil.rmtree(old)
    work.mkdir(parents=True)
    write_json({**owner, "modules": modules}, work / OWNER)


def _whose(record: dict[str, Any]) -> dict[str, Any]:
    """The part of an owner record that must be equal for an attempt to use an earlier attempt's checkpoints."""
    return {**record, "modules": checkpoint_code(record["modules"])}


def read_json(path: Path) -> Any:
    """A JSON file's value; None if there is no file, or it is not complete."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def step_of(checkpoint: Path | None) -> int:
    """Number of optimiser steps before a checkpoint; 0 for None."""
    return step_of_checkpoint(checkpoint.name) if checkpoint else 0


def seal(folder: Path, step: int, parts: Path, known: dict[str, str]) -> None:
    """Flush a folder's files and the parts up to its step to disk, then write the folder's checksums.

    `known` has the digests, by path below `parts`, of the parts that are already flushed. New ones are added. Raises
    StudyError if one of these is gone, or the file that says whose work this is.
    """
    inside = sorted(folder.rglob("*"))
    files = [path for path in inside if path.is_file() and path.name != SEAL]
    names = [str(path.relative_to(parts)) for path in parts_until(parts, step)]
    owner = folder.parent / OWNER
    if gone := [parts / name for name in sorted(known.keys() - names)] or [owner] * (not owner.is_file()):
        raise StudyError(
            f"{gone[0]}: was moved or deleted during the training; put back what was moved, then run the same command "
            "again"
        )
    new = [parts / name for name in names if name not in known]
    with ThreadPoolExecutor(16) as pool:  # file systems flush several files together in one go
        digests = dict(zip([*files, *new], pool.map(_flushed, [*files, *new]), strict=True))
        folders = {folder, parts, *(path.parent for path in new), *(path for path in inside if path.is_dir())}
        list(pool.map(flush_to_disk, (path for path in folders if path.is_dir())))
    known.update({str(path.relative_to(parts)): digests[path] for path in new})
    checksums = {
        "files": {str(path.relative_to(folder)): digests[path] for path in files},
        "parts": {name: known[name] for name in names},
    }
    write_json({**checksums, "own": _digest(checksums)}, folder / SEAL)
    flush_to_disk(folder.parent)


def fault_of(folder: Path, parts: Path) -> Path | None:
    """The first file of a sealed folder, or of the parts up to its step, that has changed or is missing; else None."""
    seal = read_json(folder / SEAL)
    if not isinstance(seal, dict) or seal.pop("own", None) != _digest(seal):
        return folder / SEAL
    expected = [(folder / name, digest) for name, digest in seal["files"].items()]
    expected += [(parts / name, digest) for name, digest in seal["parts"].items()]
    return next((path for path, digest in expected if not path.is_file() or sha256(path) != digest), None)


def checkpoints(work: Path) -> list[Path]:
    """Folders of all checkpoints, sealed or not, the latest first."""
    return sorted(work.glob("checkpoint-*"), key=step_of, reverse=True)


def last_good(folders: list[Path], parts: Path) -> Path | None:
    """The first folder that is sealed and unchanged; None if there is none.

    A folder that was never sealed is removed. One with a changed file, or with a changed part, is named in the log and
    set aside with the part.
    """
    for folder in folders:
        if not (folder / SEAL).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            continue
        fault = fault_of(folder, parts)
        if fault is None:
            return folder
        aside = folder.parent / SET_ASIDE
        print(f"train: {fault} is not what was written there: {folder.name} is set aside in {aside}", flush=True)
        aside.mkdir(exist_ok=True)
        for path in (folder, *([fault] if parts in fault.parents and fault.exists() else [])):
            os.replace(path, _free_name(aside / path.name))
    return None


def drop_old(work: Path, limit: int | None) -> None:
    """Remove all checkpoints but the last `limit`. Without a limit, remove none."""
    for folder in checkpoints(work)[limit:] if limit else []:
        remove_sealed(folder)


def remove_sealed(folder: Path) -> None:
    """Remove a sealed folder, starting with its seal: a folder without its seal is not used."""
    (folder / SEAL).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def resume_point(work: Path) -> Path | None:
    """The checkpoint to resume from; None to start from the beginning. Parts of later steps are dropped."""
    parts = work / "parts"
    checkpoint = last_good(checkpoints(work), parts)
    drop_parts_after(parts, step_of(checkpoint))
    return checkpoint


def _flushed(path: Path) -> str:
    """Flush a file to disk and return its SHA-256."""
    flush_to_disk(path)
    return sha256(path)


def _digest(checksums: dict[str, Any]) -> str:
    """Digest of the checksums themselves."""
    return hashlib.sha256(dump(checksums).encode()).hexdigest()


def _free_name(path: Path) -> Path:
    """The path, or the first of `path.1`, `path.2`, ... that is not taken."""
    names = (path, *(path.with_name(f"{path.name}.{n}") for n in range(1, 1000)))
    return next(name for name in names if not name.exists())
