"""Damaged results of finished runs and evaluations, found by the sizes of their files and without reading them.

`snakemake verify` reads the files as well: `start.verify`.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from reward_ablation.start.history import read_record
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

#: What is wrong with a file that is not there.
MISSING = "is missing"
#: SHA-256 of a file without a byte.
_OF_NOTHING = hashlib.sha256().hexdigest()


class Damage:
    """What is damaged of a study's results."""

    def __init__(self, study: Study):
        self.study = study
        self.root = study.root / study.config.root

    def of_run(self, name: str, record: dict[str, Any], with_models: bool = False) -> str | None:
        """The first damaged file of `files_of_run` and the number of others, in words; None where none is damaged."""
        damaged = self.files_of_run(name, record, with_models)
        if not damaged:
            return None
        (file, problem), *others = damaged
        more = f", and {len(others)} more {'file is' if len(others) == 1 else 'files are'} damaged" if others else ""
        return f"{file} {problem}{more}"

    def files_of_run(self, name: str, record: dict[str, Any], with_models: bool = False) -> list[tuple[str, str]]:
        """Damaged files of a finished run, each with what is wrong in words.

        Whoever deletes a model's whole folder does so to free space: these files count as damaged only
        `with_models`. An evaluation that needs the model says so, and what to do. `record` is the run's `run.json`.
        Records of older versions have no sizes: their files must be there.
        """
        folder = f"{self.root}/runs/{name}"
        damaged = []
        for file, digest, size in recorded_files(record):
            problem = size_problem(f"{folder}/{file}", size, may_be_empty=digest == _OF_NOTHING)
            model, slash, _ = file.partition("/")
            was_deleted = problem is not None and slash and not with_models and not os.path.exists(f"{folder}/{model}")
            if problem is not None and not was_deleted:
                damaged.append((file, problem))
        return damaged

    def of_answers(self, model: str) -> dict[str, str]:
        """What is wrong with each damaged file of answers of a run or of `base`, by path from the results folder.

        Answers that are missing are not damaged: Snakemake makes them.
        """
        damaged = {}
        for file in self.answer_files(model):
            if size_of(f"{self.root}/{file}") is not None:
                record = read_record(self.root, record_beside(file)) or {}
                problem = size_problem(f"{self.root}/{file}", record.get("size"))
                if problem is not None:
                    damaged[file] = problem
        return damaged

    def answer_files(self, model: str) -> list[str]:
        """Files of a model's answers, from the results folder; those of the models that a run kept come last."""
        kinds = ["", ".steps"] if model in self.study.keeping_runs else [""]
        folder = f"{self.study.answers_folder}/{model}"
        return [f"{folder}/{dataset}{kind}.parquet" for kind in kinds for dataset in self.study.datasets]

    def all_answers(self) -> dict[str, str]:
        """Damaged answers of the base model and of all runs, as `of_answers`."""
        models = ("base", *self.study.runs)
        return {file: problem for model in models for file, problem in self.of_answers(model).items()}


def recorded_files(record: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    """Files that a `run.json` lists: path from the run's folder, SHA-256, and size in bytes where recorded."""
    files, sizes = record.get("files"), record.get("sizes")
    if not isinstance(files, dict):
        return []
    sizes = sizes if isinstance(sizes, dict) else {}
    return [(file, digest, sizes.get(file)) for file, digest in files.items()]


def record_beside(file: str) -> str:
    """Path of the record beside a Parquet file of answers or of problems."""
    return f"{file.removesuffix('.parquet')}.json"


def size_problem(path: str, recorded: int | None, may_be_empty: bool = False) -> str | None:
    """What is wrong with a file by its size, in words; None where nothing is.

    `recorded`: the bytes that were written. Where these are not recorded, a file without a byte is damaged, unless it
    `may_be_empty`.
    """
    size = size_of(path)
    if size is None:
        return MISSING
    if recorded is None:
        return "is empty" if size == 0 and not may_be_empty else None
    if size != recorded:
        size = _size_by_opening(path)  # a network file system may have answered from its cache
    return None if size == recorded else f"has {size} byte{'' if size == 1 else 's'} instead of {recorded}"


def size_of(path: str) -> int | None:
    """Bytes of a file; None where there is no such file, a StudyError where the file system does not say."""
    try:
        return os.stat(path).st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot_look_at(path, error) from None


def _size_by_opening(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _cannot_look_at(path, error) from None


def _cannot_look_at(path: str, error: OSError) -> StudyError:
    return StudyError(f"{path}: {error.strerror}; make the file readable, then run the same command again")
