"""What earlier starts left in the results folder: finished and interrupted runs, and damaged files.

`decide` reads it to say what the next start makes. The status, `prune`, `verify` and `plan --adopt` take its readers of
records and locks, and its search for damaged files. It says what is there, and not what follows from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.spec.canonical import KEY_DIGITS
from reward_ablation.study.answers_record import is_record, of_another_training, record_beside
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, OWNER, RECORD, SEAL, WORK, step_of_checkpoint
from reward_ablation.study.study import Study
from reward_ablation.system.digests import digest_where_present
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Patterns of the names of seeds and of runs. Other folders, such as a copy seed0.bak, are a user's own.
SEED = "seed[0-9]+"
KEYED = rf"{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}"
RUN = f"{KEYED}/{SEED}"
#: Stands for a record that exists and cannot be read.
BROKEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Interrupted:
    """The work of an unfinished run: what the run is trained with, and how far it is."""

    spec: dict[str, Any]
    code: str
    inputs: dict[str, str]
    modules: dict[str, str]
    step: int  # the step of the last checkpoint; 0 without a checkpoint
    running: bool  # whether a process trains the run now


@dataclass(frozen=True)
class History:
    """Runs on disk, by `{arm}-{key}/seed{seed}`."""

    records: dict[str, dict[str, Any]]  # `run.json` of each finished run, of this study or of other configs
    #: The hidden copy of `run.json`, of each named run whose `run.json` is missing or cannot be read. Such a run is
    #: finished, and its job puts the record back where code, inputs and files still fit.
    set_aside: dict[str, dict[str, Any]]
    interrupted: dict[str, Interrupted]  # unfinished runs among the named runs

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
        for name in (f"{folder}/{seed}" for seed in _folders_in(runs / folder)):
            record = read_record(runs / name) if re.fullmatch(RUN, name) else None
            if record is not None:
                records[name] = record
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
    """Whether a process holds a lock; None without its file, or where the file system has no locks."""
    held = _is_held_now(lock)
    if held:  # perhaps for the instant in which another process looks
        time.sleep(0.002)
        held = _is_held_now(lock)
    return held


def _is_held_now(lock: Path) -> bool | None:
    """The same as `is_held`, by a single attempt to take the lock."""
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


#: The problem of a file that does not exist.
MISSING = "is missing"
#: The problem of answers that a model gave which was replaced since.
REPLACED = "is of an earlier training of the run"
#: The problem of answers where nothing says which training of the run gave them.
NAMELESS = "has no record that names the training of the run"
#: SHA-256 of an empty file.
_EMPTY_FILE = hashlib.sha256().hexdigest()


class Damage:
    """Finds the damaged files among a study's results, or among those in another folder."""

    def __init__(self, study: Study, results: Path | None = None):
        self.study = study
        self.root = results or study.results

    def of_run(self, name: str, record: dict[str, Any], with_models: bool = False) -> str | None:
        """The first damaged file of a run and the number of others, in words; None where no file is damaged."""
        damaged = self.files_of_run(name, record, with_models)
        if not damaged:
            return None
        (file, problem), *others = damaged
        more = f", and {len(others)} more {'file is' if len(others) == 1 else 'files are'} damaged" if others else ""
        return f"{file} {problem}{more}"

    def files_of_run(self, name: str, record: dict[str, Any], with_models: bool = False) -> list[tuple[str, str]]:
        """Damaged files of a finished run, each with its problem; a deleted model's only `with_models`."""
        folder = f"{self.root}/runs/{name}"
        damaged = []
        for file, digest, size in recorded_files(record):
            problem = size_problem(f"{folder}/{file}", size, may_be_empty=digest == _EMPTY_FILE)
            model, slash, _ = file.partition("/")
            was_deleted = problem is not None and slash and not with_models and not os.path.exists(f"{folder}/{model}")
            if problem is not None and not was_deleted:
                damaged.append((file, problem))
        return damaged

    def of_answers(self, model: str) -> dict[str, str]:
        """The problem of each damaged file of answers of `base` or a run; missing answers do not count."""
        damaged = {}
        run = self.root / "runs" / model / RECORD
        trained = None if model == "base" else digest_where_present(run)
        for file in self.answer_files(model):
            if size_of(f"{self.root}/{file}") is not None:
                record = read_record(self.root, record_beside(file)) or {}
                problem = size_problem(f"{self.root}/{file}", record.get("size"))
                if problem is None and trained and of_another_training(record, trained, run):
                    problem = REPLACED if "run" in record.get("inputs", {}) else NAMELESS
                if problem is not None:
                    damaged[file] = problem
        return damaged

    def answer_files(self, model: str) -> list[str]:
        """Files of a model's answers, relative to the results folder. Those of the models that a run kept come last."""
        kinds = ["", ".steps"] if model in self.study.keeping_runs else [""]
        folder = f"{self.study.answers_folder}/{model}"
        return [f"{folder}/{dataset}{kind}.parquet" for kind in kinds for dataset in self.study.datasets]

    def all_answers(self) -> dict[str, str]:
        """Damaged answers of the base model and of all runs, as in `of_answers`."""
        models = ("base", *self.study.runs)
        return {file: problem for model in models for file, problem in self.of_answers(model).items()}


def recorded_files(record: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    """Files that a `run.json` lists: path relative to the run's folder, SHA-256, and size in bytes if recorded."""
    files, sizes = record.get("files"), record.get("sizes")
    if not isinstance(files, dict):
        return []
    sizes = sizes if isinstance(sizes, dict) else {}
    return [(file, digest, sizes.get(file)) for file, digest in files.items()]


def size_problem(path: str, recorded: int | None, may_be_empty: bool = False) -> str | None:
    """What is wrong with a file by its size, if anything; without a recorded size, an empty file is damaged."""
    size = size_of(path)
    if size is None:
        return MISSING
    if recorded is None:
        return "is empty" if size == 0 and not may_be_empty else None
    if size != recorded:
        size = _size_by_opening(path)  # a network file system may have answered from its cache
    return None if size == recorded else f"has {size} byte{'' if size == 1 else 's'} instead of {recorded}"


def size_of(path: str) -> int | None:
    """Bytes of a file; None where the file does not exist; a StudyError where the file system gives an error."""
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a name with NUL
        return None
    except OSError as error:
        raise _not_readable(path, error) from None


def _size_by_opening(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _not_readable(path, error) from None


def _not_readable(path: str, error: OSError) -> StudyError:
    return StudyError(f"{path}: {error.strerror}; make the file readable, then run the same command again")
