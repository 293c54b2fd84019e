"""Records of runs (`run.json`), checked against the study, and the rollouts of runs.

Each rule of tables and each look of a sequential study reads the runs by `read_runs`, so that all of them refuse a run
of another config, model or training set. The classes of records also serve the hours of the report, and imports.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from reward_ablation.analysis.reading import read_parquets
from reward_ablation.analysis.study_file import Section, StudyFile, StudyRun, first_mistake
from reward_ablation.spec.run import ImportedSpec
from reward_ablation.study.provenance import Trained, comparable_codes
from reward_ablation.study.run_folder import RECORD, deciding_inputs
from reward_ablation.system.digests import check_files, read_object
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


class Hardware(Section):
    """What an attempt ran on."""

    machine: str
    cpus: int | None
    gpus: list[str]
    processes: int


class SlurmJob(Section):
    """The Slurm job that an attempt ran in; None where Slurm gave no value."""

    id: str
    name: str | None
    cluster: str | None
    gpus: float  # whole ones, or a share of one
    cpus: int | None
    start: float | None  # of the job, in seconds since 1970
    seconds_before: float | None  # from there until the process of the attempt began
    parts: int = 1  # more than 1 where the job went on with the run's evaluation


class Attempt(Section):
    """One start of a run. `wall_seconds` last until its last record, and `start_seconds` until its first step."""

    from_step: int
    to_step: int
    packages: dict[str, str]
    hardware: Hardware
    ended: str = "done"
    wall_seconds: float
    start_seconds: float = 0.0
    slurm: SlurmJob | None = None


class Requests(Section):
    """Use of a judge by a run, or by a metric of the study's own: requests, texts without an answer, and tokens."""

    requests: int
    unanswered: int
    prompt_tokens: int
    completion_tokens: int


class RunRecord(Section):
    """`run.json`, as far as the analysis reads it; times are over all attempts. Old records lack what has a default."""

    code: str
    modules: dict[str, str] = Field(default_factory=dict)  # digests of the modules that trained the run, by name
    inputs: dict[str, str]  # digests of the base model's record and of the training set
    steps: int
    attempts: list[Attempt] = Field(min_length=1)
    wall_seconds: float
    gpu_hours: float
    cpu_hours: float = math.nan
    packages: dict[str, str]
    hardware: Hardware | None
    files: dict[str, str]  # digests of the run's files, by name
    #: By model of the endpoint. Empty for a run that asks no endpoint.
    requests: dict[str, Requests] = Field(default_factory=dict)
    #: Of a run that was made from another one: its name, and the components that were scored afterwards.
    rescored: dict[str, Any] | None = None


class ImportedRecord(RunRecord):
    """`run.json` of a run that was trained elsewhere, read from files in the format `imported`."""

    imported: str
    code: str = "not known"
    inputs: dict[str, str] = Field(default_factory=dict)
    attempts: list[Attempt] = Field(default_factory=list, max_length=0)
    wall_seconds: float = math.nan
    gpu_hours: float = math.nan
    packages: dict[str, str] = Field(default_factory=dict)
    hardware: Hardware | None = None


def first_difference(recorded: Any, planned: Any, key: str = "spec") -> str | None:
    """The first key under which two specs differ, with both values; None where the specs are equal."""
    if recorded == planned:
        return None
    if isinstance(recorded, dict) and isinstance(planned, dict):
        names = sorted(recorded.keys() | planned.keys())
        pairs = ((recorded.get(name, "(absent)"), planned.get(name, "(absent)"), f"{key}.{name}") for name in names)
        return next(filter(None, (first_difference(*pair) for pair in pairs)), None)
    return f"{key} is {json.dumps(recorded)} there and {json.dumps(planned)} in the study"


def present_inputs(study: StudyFile, root: Path) -> dict[str, str]:
    """Current digests of the base model's record and of the training set; a missing file is left out."""
    return {name: sha256(root / path) for name, path in study.inputs.items() if (root / path).is_file()}


def rerun_of(folder: Path) -> str:
    """What to do about a run that cannot be used."""
    return f"delete {folder} and run the workflow again, which trains it again"


def read_run(run: StudyRun, root: Path, inputs: dict[str, str]) -> RunRecord:
    """Read a run's record; refuse another spec, seed, model, or data: new code may prepare other rows."""
    folder = root / run.folder
    rerun = rerun_of(folder)
    if not (folder / RECORD).exists():
        raise StudyError(
            f"{folder / RECORD}: there is no such file, so the run is not finished; run the workflow again"
        )
    written = read_object(folder / RECORD, rerun)
    planned = {"spec": run.spec.content(), "seed": run.seed}
    difference = first_difference({name: written.get(name) for name in planned}, planned, "run")
    if difference is not None:
        raise StudyError(f"{folder}: trained under another config: {difference}; {rerun}")
    try:
        kind = ImportedRecord if isinstance(run.spec, ImportedSpec) else RunRecord
        record = kind.model_validate(written)
    except ValidationError as error:
        raise StudyError(f"{folder / RECORD}: {first_mistake(error)}; {rerun}") from None
    for name, digest in deciding_inputs(written["spec"], inputs).items():
        if record.inputs.get(name) != digest:
            raise StudyError(f"{folder}: trained on another version of its {name}; run the same command again")
    return record


def read_runs(study: StudyFile, root: Path, files: Iterable[str] = ()) -> dict[str, RunRecord]:
    """Records of all runs by folder, checked against the study; `files` of each run must be what the record lists."""
    inputs = present_inputs(study, root)
    records = {}
    for run in study.runs:
        folder = root / run.folder
        records[run.folder] = read_run(run, root, inputs)
        check_files(folder, records[run.folder].files, files, RECORD, rerun_of(folder))
    return with_comparable_codes(study, records)


def with_comparable_codes(study: StudyFile, records: dict[str, RunRecord]) -> dict[str, RunRecord]:
    """Records with comparable digests of code: equal for runs that differ only in the components that score them."""
    functions = {run.folder: run.spec.functions for run in study.runs}
    trained = {folder: Trained(record.code, functions[folder], record.modules) for folder, record in records.items()}
    codes = comparable_codes(trained, {function for of_run in functions.values() for function in of_run})
    return {folder: record.model_copy(update={"code": codes[folder]}) for folder, record in records.items()}


def read_rollouts(runs: list[StudyRun], root: Path, columns: list[str]) -> pd.DataFrame:
    """Columns of the rollouts of runs, one run after the other, with the column seed; problem ids are categories."""
    files = [root / run.folder / "rollouts.parquet" for run in runs]
    rows, sizes = read_parquets(files, columns, coded=["problem_id"])
    return rows.assign(seed=np.repeat([run.seed for run in runs], sizes))
