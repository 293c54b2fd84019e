"""Which answers of a model, or of a run, exist, and which are still to be made.

One job makes the answers to all evaluation sets, also those of the models that a run kept. Each model's answers to a
set are stored in a hidden folder as soon as they are made, so that an interrupted job continues where it stopped. The
files get their place when all answers exist, because Snakemake removes the outputs of a job that fails.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.evaluation.record import record_of
from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.study.answers_record import Making, are_current, read_record, record_beside
from reward_ablation.study.run_folder import UNFINISHED
from reward_ablation.system.files import link_or_copy, write_json, write_parquet


@dataclass(frozen=True)
class Part:
    """The answers of one model to one evaluation set."""

    name: str  # of the file in the hidden folder, without its ending
    dataset: str  # name and key of the evaluation set
    model: Path  # folder of the model, or of the adapter
    step: int | None  # after which the run kept the model; None for the final model, and for the base model


class Answers:
    """The files of answers of a model, or of a run, in their folder.

    Each evaluation set gets a file of answers and its record in `folder`, and a second such pair for the models that
    the run kept. `final` is the folder of the final model, of its adapter, or of the base model. `kept` has the folders
    of the models that the run kept by step, or is None where the study keeps none. `making` says what the answers to
    each evaluation set depend on. `scores` are the folders with scores of these answers by the study's own metrics,
    present or former.
    """

    def __init__(
        self,
        spec: EvaluateSpec,
        folder: Path,
        final: Path,
        kept: Mapping[int, Path] | None,
        making: Mapping[str, Making],
        scores: Sequence[Path] = (),
    ):
        self.scores = scores
        self.spec, self.folder, self.work, self.making = spec, folder, folder / UNFINISHED, making
        self.files: dict[str, list[Part]] = {}
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
        """The parts that are still to be made, one model after the other, with the final model first.

        Finished files are also linked in the hidden folder, so that they survive if this job fails.
        """
        missing = []
        for file, parts in self.files.items():
            if self._is_there(self.folder, file):
                _link(file, self.folder, self.work)
            elif not self._is_there(self.work, file):
                missing += [part for part in parts if not are_current(self._path(part.name), self.making[part.dataset])]
        return sorted(missing, key=lambda part: -1 if part.step is None else part.step)

    def store(self, part: Part, answers: pa.Table, seconds: float) -> None:
        """Store the answers of a part, and in their record the seconds that making them took."""
        self._write(part.name, part.dataset, [part.model], answers, seconds)

    def put_in_place(self) -> None:
        """Join the answers of the models that the run kept, and give all files their names.

        Scores of answers that are replaced go first, so that scores are always of the answers beside which they are.
        """
        for file, parts in self.files.items():
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
        from reward_ablation.evaluation.evaluate import of_all_steps  # imports transformers

        tables = {part.step or 0: pq.read_table(self._path(part.name)) for part in parts}
        answers = of_all_steps(tables, self.spec.evaluation.answer_format)
        records = [read_record(record_beside(self._path(part.name))) for part in parts]
        seconds = sum(record.get("wall_seconds", 0) for record in records)
        self._write(file, file.removesuffix(".steps"), [part.model for part in parts], answers, seconds)

    def _write(self, name: str, dataset: str, models: Sequence[Path], answers: pa.Table, seconds: float) -> None:
        """Write answers, then their record.

        Old answers and their record go first, in this order: without their record they would count as current.
        """
        path = self._path(name)
        path.unlink(missing_ok=True)
        record_beside(path).unlink(missing_ok=True)
        write_parquet(answers, path)
        inputs = dict(self.making[dataset].inputs)
        write_json(record_of(self.spec, inputs, models, answers, path, seconds), record_beside(path))

    def _is_there(self, folder: Path, file: str) -> bool:
        return are_current(folder / f"{file}.parquet", self.making[file.removesuffix(".steps")])

    def _path(self, name: str) -> Path:
        return self.work / f"{name}.parquet"


def _link(file: str, source: Path, target: Path) -> None:
    """Link or copy answers into another folder. Their record, which says what they are, comes first."""
    for name in (f"{file}.json", f"{file}.parquet"):
        if (source / name).is_file():
            link_or_copy(source / name, target / name)
