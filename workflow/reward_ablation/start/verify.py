"""`reward-ablation verify`: reads every recorded file of a study again.

These are the files of the base model, the prepared data, finished runs, and answers. Tables, figures and exports have
no digests, because Snakemake makes them from these files in minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.start.damage import MISSING, Damage, recorded_files, size_of, size_problem
from reward_ablation.start.history import BROKEN, is_held, read_record
from reward_ablation.start.prune import size_text
from reward_ablation.study.answers_record import record_beside
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD
from reward_ablation.study.study import Study
from reward_ablation.system.files import sha256

#: Seconds between two progress lines.
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class RecordedFile:
    """A file to verify, by its path from the results folder."""

    file: str
    #: SHA-256; None where none is recorded. The checksums in a Parquet file's pages are verified then.
    digest: str | None
    #: What is wrong with the file, as far as that shows without reading the file; None where nothing is.
    problem: str | None
    #: What repairs the file if its size is wrong.
    size_remedy: str
    #: What repairs the file if only its content is wrong.
    content_remedy: str


class Verification:
    """Reads a study's files again, and counts the damaged ones."""

    def __init__(self, study: Study):
        self.study = study
        self.root = study.results
        self.damage = Damage(study)
        self.damaged = 0
        self.in_training = [name for name in study.runs if is_held(self.root / "runs" / name / LOCK) is True]

    def run(self, tell: Callable[[str], None], tell_progress: Callable[[str], None]) -> None:
        """Verify all files.

        `tell` gets a line for each damaged file, and at the end a line with the number of files, and one on runs in
        training if there are any. `tell_progress` gets a line with the number of bytes read so far, every few seconds.
        """
        sizes = [size_of(f"{self.root}/{recorded.file}") or 0 for recorded in self.files]
        total, read, last_progress = sum(sizes), 0, time.monotonic()
        for recorded, size in zip(self.files, sizes, strict=True):
            if time.monotonic() - last_progress > PROGRESS_SECONDS:
                last_progress = time.monotonic()
                tell_progress(f"verify: {size_text(read)} of {size_text(total)} read, {self.damaged} files damaged")
            problem, remedy = recorded.problem, recorded.size_remedy
            if problem is None:
                problem = _content_problem(self.root / recorded.file, recorded.digest)
                remedy = recorded.content_remedy
            if problem is not None:
                self.damaged += 1
                tell(f"damaged: {self.study.config.root}/{recorded.file} {problem}; {remedy}")
            read += size
        counts = f"{len(sizes)} files, {size_text(total)}"
        tell(f"verified {counts}: {self.damaged} damaged" if self.damaged else f"verified {counts}: none is damaged")
        if self.in_training:
            tell(f"runs not verified, because they are being trained: {', '.join(self.in_training)}")

    @cached_property
    def files(self) -> list[RecordedFile]:
        """The recorded files of the study, in the order in which the workflow makes them."""
        return [*self._models(), *self._data(), *self._runs(), *self._answers()]

    def _models(self) -> Iterator[RecordedFile]:
        """Files of the fetched model, of the supervised start and of the reward models."""
        study = self.study
        for file in dict.fromkeys((study.fetched_file, study.model_file, *study.fetched_reward_models)):
            folder = file.rpartition("/")[0]
            remedy = f"delete {self.study.config.root}/{folder}: the model is made again once a job needs it"
            record = read_record(self.root, file)
            if record is BROKEN:
                yield RecordedFile(file, None, "cannot be read", remedy, remedy)
            for name, entry in ((record or {}).get("files") or {}).items():
                path = f"{folder}/{name}"
                size, digest = (entry.get("size"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
                problem = size_problem(f"{self.root}/{path}", size, may_be_empty=True)
                yield RecordedFile(path, digest or "none", problem, remedy, remedy)

    def _data(self) -> Iterator[RecordedFile]:
        """The prepared sets of problems that exist."""
        study = self.study
        sets = [study.demonstrations_file, study.problems_file, *study.evaluation_files]
        remedy = "delete the file: the data are prepared again once a job needs them"
        for file in sets:
            if file is not None and (self.root / file).is_file():
                yield RecordedFile(file, self._digest_beside(file), None, remedy, remedy)

    def _digest_beside(self, file: str) -> str | None:
        return (read_record(self.root, record_beside(file)) or {}).get("sha256")

    def _runs(self) -> Iterator[RecordedFile]:
        """Files of finished runs."""
        for name in self.study.runs:
            if name in self.in_training:
                continue
            folder = self.root / "runs" / name
            record = read_record(folder)
            copy = None if record else read_record(folder, HIDDEN_RECORD)
            again = f"trains the run again{self._hours(name, record or copy or {})}"
            if record is BROKEN:
                remedy = "the next start writes the record again" if copy else f"the next start {again}"
                yield RecordedFile(f"runs/{name}/{RECORD}", None, "cannot be read", remedy, remedy)
            yield from self._files_of_run(name, record or copy or {}, again, with_models=not record)

    def _files_of_run(self, name: str, record: dict[str, Any], again: str, with_models: bool) -> Iterator[RecordedFile]:
        damaged = dict(self.damage.files_of_run(name, record, with_models))
        for file, digest, _ in recorded_files(record):
            path = f"runs/{name}/{file}"
            if file in damaged or size_of(f"{self.root}/{path}") is not None:  # else the user deleted the model
                yield _made_again(path, digest, damaged.get(file), again)

    def _hours(self, name: str, record: dict[str, Any]) -> str:
        on_gpus = self.study.runs[name].launch.gpus > 0
        hours = record.get("gpu_hours" if on_gpus else "cpu_hours")
        return "" if hours is None else f" ({hours:.2g} {'GPU' if on_gpus else 'CPU'} hours)"

    def _answers(self) -> Iterator[RecordedFile]:
        """The files of answers that exist, of the base model and of the runs."""
        for model in ("base", *self.study.runs):
            damaged = self.damage.of_answers(model)
            for file in self.damage.answer_files(model):
                if (self.root / file).is_file():
                    yield _made_again(file, self._digest_beside(file), damaged.get(file), "makes the answers again")


def _made_again(file: str, digest: str | None, problem: str | None, again: str) -> RecordedFile:
    """A file whose size every start checks, and whose content only `verify` reads."""
    return RecordedFile(
        file, digest, problem, f"the next start {again}", f"delete the file, and the next start {again}"
    )


def _content_problem(path: Path, digest: str | None) -> str | None:
    """What is wrong with the bytes of a file, in words; None where nothing is."""
    try:
        if digest is None:
            return _parquet_problem(path)
        actual = sha256(path)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if actual == digest:
        return None
    return f"has other bytes: its SHA-256 starts with {actual[:8]} instead of {digest[:8]}"


def _parquet_problem(path: Path) -> str | None:
    """What is wrong with a Parquet file by the checksums in its pages, in words; None where nothing is."""
    import pyarrow.parquet as pq

    try:
        pq.read_table(path, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        return f"is no whole Parquet file ({str(error).splitlines()[0].rstrip('.')})"
    return None
