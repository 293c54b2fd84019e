"""The files of answers of a model, or of a run: which exist, and which are still to be made.

The command of this package asks it what is missing and hands it the answers. One job makes the answers to all
evaluation sets, also those of the models that the run kept. Each model's answers to a set are stored in a hidden folder
as soon as they are made, so that an interrupted job continues where it stopped. The files get their place when all
answers exist, because Snakemake removes the outputs of a job that fails.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.study.answers_record import Making, are_current, read_record, record_beside
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.study.run_folder import UNFINISHED
from reward_ablation.system.files import link_or_copy, sha256, write_json, write_parquet

#: Packages that decide answers and their grades; vLLM where it is installed.
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "numpy", "math-verify", "vllm")


@dataclass(frozen=True)
class Part:
    """The answers of one model to one evaluation set."""

    name: str  # of the file in the hidden folder, without its ending
    dataset: str  # name and key of the evaluation set
    model: Path  # folder of the model, or of the adapter
    step: int | None  # after which the run kept the model; None for the final model, and for the base model


class Answers:
    """The files of answers of a model, or of a run, in their folder: a table and its record for each evaluation set.

    A second pair has the answers of the models that the run kept, `kept` by step; None where the study keeps none.
    `final` is the folder of the final model, its adapter, or the base model. `making` says what the answers to each set
    depend on. `scores` are folders with scores of these answers. The time since `started` is split among the answers.
    """

    def __init__(
        self,
        spec: EvaluateSpec,
        folder: Path,
        final: Path,
        kept: Mapping[int, Path] | None,
        making: Mapping[str, Making],
        scores: Sequence[Path],
        started: float,
    ):
        self.scores, self.last = scores, started  # `last`: when the part before was stored
        self.code = deciding_digest("evaluation")  # now: the code may be edited while it generates
        self.spec, self.folder, self.work, self.making = spec, folder, folder / UNFINISHED, making
        self.files: dict[str, list[Part]] = {}  # by file, the parts that it is made of
        for dataset in making:
            self.files[dataset] = [Part(dataset, dataset, final, None)]
            if kept is not None:
                self.files[f"{dataset}.steps"] = [
                    Part(f"{dataset}.step{step}", dataset, model, step) for step, model in kept.items()
                ]

    def are_complete(self) -> bool:
        """Whether all files are in place."""
        return all(self._is_there(self.folder, file) for file in self.files)

    def to_make(self) -> list[Part]:
        """The parts still to be made, the final model first. Finished files are linked, so that they survive."""
        missing = []
        for file, parts in self.files.items():
            if self._is_there(self.folder, file):
                _link(file, self.folder, self.work)
            elif not self._is_there(self.work, file):
                missing += [part for part in parts if not are_current(self._path(part.name), self.making[part.dataset])]
        return sorted(missing, key=lambda part: -1 if part.step is None else part.step)

    def store(self, part: Part, answers: pa.Table) -> None:
        """Store the answers of a part, and in their record the seconds since the part before."""
        last, self.last = self.last, time.perf_counter()
        self._write(part.name, part.dataset, [part.model], answers, self.last - last)

    def put_in_place(self) -> None:
        """Join the kept models' answers, and give all files their names, after scores of replaced answers are gone."""
        for file, parts in self.files.items():
            # A file that is no evaluation set's own has the answers of the kept models.
            if file not in self.making and not self._is_there(self.work, file):
                self._join(file, parts)
        for file in self.files:
            if not self._is_there(self.folder, file):
                for folder in self.scores:
                    (folder / f"{file}.parquet").unlink(missing_ok=True)
            _link(file, self.work, self.folder)

    def remove_unfinished(self) -> None:
        """Remove the hidden folder. On NFS, the lock that this process holds in the folder stays, and so the folder."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _join(self, file: str, parts: Sequence[Part]) -> None:
        """Write the answers of all kept models to one file, with the sum of their times."""
        from reward_ablation.evaluation.score import schema_of  # imports the grader

        schema = schema_of(self.spec.evaluation.answer_format).insert(0, pa.field("step", pa.int64(), nullable=False))
        tables = [schema.empty_table()]
        for part in parts:  # in order of the steps
            answers = pq.read_table(self._path(part.name))
            steps = pa.array([part.step] * answers.num_rows, pa.int64())
            tables.append(answers.add_column(0, schema.field("step"), steps).cast(schema))
        records = [read_record(record_beside(self._path(part.name))) for part in parts]
        seconds = sum(record.get("wall_seconds", 0) for record in records)
        self._write(
            file, file.removesuffix(".steps"), [part.model for part in parts], pa.concat_tables(tables), seconds
        )

    def _write(self, name: str, dataset: str, models: Sequence[Path], answers: pa.Table, seconds: float) -> None:
        """Write answers."""
        # They get their name after their record: without one they would count as current. So old answers go first.
        path = self._path(name)
        unnamed = path.with_suffix(".tmp")
        path.unlink(missing_ok=True)
        record_beside(path).unlink(missing_ok=True)
        write_parquet(answers, unnamed)
        write_json(self._record(dataset, models, answers, unnamed, seconds), record_beside(path))
        os.replace(unnamed, path)

    def _record(
        self, dataset: str, models: Sequence[Path], answers: pa.Table, path: Path, seconds: float
    ) -> dict[str, Any]:
        """What made the answers in a file, and in which time. A start compares it with the present inputs."""
        import torch

        from reward_ablation.evaluation.generate import choose_backend
        from reward_ablation.models.device import gpu_name

        on_gpu, threads = self.spec.device == "cuda", torch.get_num_threads()
        gpus = [gpu_name()] if on_gpu else []
        return {
            "spec": self.spec.model_dump(mode="json"),
            "code": self.code,
            "inputs": dict(self.making[dataset].inputs),
            "backend": choose_backend(self.spec.evaluation.backend, self.spec.device),
            "packages": {"python": platform.python_version(), **installed()},
            "hardware": {"machine": platform.machine(), "cpus": os.cpu_count(), "gpus": gpus},
            "threads": threads,
            "models": [folder.name for folder in models],
            "answers": answers.num_rows,
            "size": path.stat().st_size,
            "sha256": sha256(path),
            "tokens": sum(answers["tokens"].to_pylist()),
            "wall_seconds": round(seconds, 1),
            "gpu_hours": round(seconds / 3600, 4) if on_gpu else 0.0,
            "cpu_hours": round(seconds * threads / 3600, 4),
        }

    def _is_there(self, folder: Path, file: str) -> bool:
        return are_current(folder / f"{file}.parquet", self.making[file.removesuffix(".steps")])

    def _path(self, name: str) -> Path:
        return self.work / f"{name}.parquet"


def _link(file: str, source: Path, target: Path) -> None:
    """Link or copy answers into another folder. Their record, which says what they are, comes first."""
    for name in (f"{file}.json", f"{file}.parquet"):
        if (source / name).is_file():
            link_or_copy(source / name, target / name)


def installed() -> dict[str, str]:
    """Versions of the installed packages among `PACKAGES`."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
