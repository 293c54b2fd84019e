"""Finished runs and answers of this project. A run keeps what only it has, such as its gradients.

`results` links such runs by `read_record` and `tables_of`, so that no rollouts are read.
`imported.answers` calls `read_answers` for answers in the format `reward_ablation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError

from reward_ablation.analysis.runs import RunRecord
from reward_ablation.analysis.study_file import first_mistake
from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import json_object, parquet_batches
from reward_ablation.imported.rows import ANSWERS, Answers
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.digests import check_files
from reward_ablation.system.errors import StudyError, first_line


class AnswerOptions(Section):
    """Options of `read_answers`: the file of prepared questions, the column of the grader that decides, and metrics."""

    questions: Line
    correct: Literal["correct_strict", "correct_lenient", "correct_math_paper"]
    metrics: list[Name] = Field(default_factory=list)


def read_record(folder: Path) -> dict[str, Any]:
    """`run.json` of a finished run, whose listed files must be as they were written."""
    record = json_object(folder / RECORD) if (folder / RECORD).is_file() else None
    if record is None:
        raise StudyError(f"{folder / RECORD}: no such file; name the folder of a finished run, ARM-KEY/seedN")
    try:
        files = RunRecord.model_validate(record).files
    except ValidationError as error:
        what = "TRL's trainer ran it; read its rollouts.parquet as a table" if record.get("tracked") else ""
        what = what or f"{first_mistake(error)}; this is no run of this project"
        raise StudyError(f"{folder / RECORD}: {what}") from None
    if "rollouts.parquet" not in files:
        raise StudyError(f"{folder / RECORD}: names no rollouts.parquet; copy the run's folder again")
    check_files(folder, files, tables_of(files), RECORD, "copy the run's folder again")
    return record


def tables_of(files: Iterable[str]) -> list[str]:
    """The Parquet files directly in a run's folder, of which tables are made. Its models are not among them."""
    return [name for name in files if name.endswith(".parquet") and "/" not in name]


def read_answers(path: Path, options: dict[str, Any]) -> Answers:
    """The answers of a model: one Parquet file below the folder `evaluation`."""
    read = validate_spec(AnswerOptions, options, "evaluation")
    problems = pa.concat_tables(parquet_batches(Path(read.questions), ["id", "question", "answer", "level", "subject"]))
    names = ["problem_id", "question", "gold", "level", "subject"]
    problems = problems.rename_columns(names)
    columns = ["problem_id", "mode", "sample", "completion", "tokens", "truncated", read.correct]
    answers = pa.concat_tables(parquet_batches(path, list(dict.fromkeys([*columns, *read.metrics]))))
    answers = answers.rename_columns({read.correct: "correct"})
    try:
        types = dict.fromkeys(names, pa.string()) | {"problem_id": answers.schema.field("problem_id").type}
        problems = problems.cast(pa.schema(types))  # a join takes no column of nulls
        table = answers.join(problems, "problem_id").sort_by([(name, "ascending") for name in ("problem_id", "sample")])
    except pa.ArrowException as error:
        raise StudyError(f"{path} with {read.questions}: {first_line(error)}; name files of this project") from None
    return Answers(table.select([*ANSWERS, *(name for name in answers.column_names if name not in ANSWERS)]))
