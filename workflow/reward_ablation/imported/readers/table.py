"""Tables of any source, as Parquet, CSV or lines of JSON; the YAML names the columns."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import LONGEST_LINE, found, json_lines, number, parquet_batches, text, without_nan
from reward_ablation.imported.readers.common import table_of
from reward_ablation.imported.rows import ANSWERS, ROLLOUTS, SCORE, Answers, Rollouts, numbered
from reward_ablation.system.errors import StudyError

Row = dict[str, Any]

#: What is missing in words, by column.
_LACKS = {"tokens": "token counts", "truncated": "mark of completions that the length limit cut off"}


class RolloutColumns(Section):
    """Names of the columns of rollouts; `arm` and `seed` tell the runs of one file apart."""

    step: Line
    problem: Line
    completion: Line
    scores: dict[Name, Line] = Field(min_length=1)
    prompt: Line | None = None
    gold: Line | None = None
    tokens: Line | None = None
    truncated: Line | None = None
    total: Line | None = None
    advantage: Line | None = None
    arm: Line | None = None
    seed: Line | None = None


class RolloutOptions(Section):
    """Options of `read_rollouts`; `only` is the run that is read of a file with several."""

    columns: RolloutColumns
    only: dict[str, Any] | None = None


class AnswerColumns(Section):
    """Names of the columns of answers; further metrics by their names."""

    problem: Line
    correct: Line
    question: Line | None = None
    gold: Line | None = None
    level: Line | None = None
    subject: Line | None = None
    completion: Line | None = None
    metrics: dict[Name, Line] = Field(default_factory=dict)


class AnswerOptions(Section):
    """Options of `read_answers`. The answers are greedy, or sampled, which a file cannot say."""

    columns: AnswerColumns
    mode: Literal["greedy", "sampled"]


def read_rollouts(path: Path, options: dict[str, Any]) -> Rollouts:
    """The completions of a run."""
    read = validate_spec(RolloutOptions, options, "rollouts")
    names: RolloutColumns = read.columns
    only, rows = read.only, []
    if only and not (names.arm and names.seed):
        raise StudyError("rollouts.columns: name the columns arm and seed, which tell the runs of one file apart")
    for where, row in rows_of(path):
        if only and (_name(row, names.arm, where), _whole(_cell(row, names.seed, where), where)) != (
            only["arm"],
            only["seed"],
        ):
            continue
        rows.append(_rollout(row, names, where))
    if not rows:
        raise StudyError(f"{path}: no rows" + (f" of arm {only['arm']}, seed {only['seed']}" if only else ""))
    lacking = [f"The table has no {words}." for name, words in _LACKS.items() if getattr(names, name) is None]
    types = {**ROLLOUTS, **{f"{SCORE}{name}": pa.float64() for name in names.scores}}
    return Rollouts(table_of(path, numbered(rows), types), lacking)


def _rollout(row: Row, names: RolloutColumns, where: str) -> Row:
    texts = {name: _optional(text, row, getattr(names, name), where) for name in ("prompt", "gold")}
    numbers = {name: _optional(_number, row, getattr(names, name), where) for name in ("total", "advantage")}
    return {
        "step": _whole(_cell(row, names.step, where), f"{where}: {names.step}"),
        "problem_id": _name(row, names.problem, where),
        "completion": text(_cell(row, names.completion, where), f"{where}: {names.completion}"),
        **texts,
        **numbers,
        "tokens": _optional(_whole, row, names.tokens, where),
        "truncated": _optional(_flag, row, names.truncated, where),
        **{f"{SCORE}{name}": _number(_cell(row, of, where), f"{where}: {of}") for name, of in names.scores.items()},
    }


def read_answers(path: Path, options: dict[str, Any]) -> Answers:
    """The answers of a model."""
    read = validate_spec(AnswerOptions, options, "evaluation")
    names: AnswerColumns = read.columns
    rows, samples = [], Counter[str]()
    for where, row in rows_of(path):
        problem = _name(row, names.problem, where)
        others = {
            name: _optional(text, row, getattr(names, name), where)
            for name in ("question", "gold", "level", "subject", "completion")
        }
        rows.append(
            {"problem_id": problem, **others, "question": others["question"] or problem, "mode": read.mode}
            | {
                "sample": samples[problem],
                "correct": _flag(_cell(row, names.correct, where), f"{where}: {names.correct}"),
            }
            | {name: _number(_cell(row, of, where), f"{where}: {of}") for name, of in names.metrics.items()}
        )
        samples[problem] += 1
    lacking = [] if names.completion else ["The table of answers has no texts."]
    return Answers(table_of(path, rows, {**ANSWERS, **dict.fromkeys(names.metrics, pa.float64())}), lacking)


def rows_of(path: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a file, or of the files of a folder, each with its place for errors."""
    for file in found(path, "*.parquet", "*.csv", "*.jsonl"):
        number_of_row = 0
        if file.suffix == ".parquet":
            for batch in parquet_batches(file):
                for row in without_nan(batch).to_pylist():
                    number_of_row += 1
                    yield f"{file}: row {number_of_row}", row
        elif file.suffix == ".csv":
            yield from _csv_rows(file)
        else:
            yield from ((f"{file}: line {line}", row) for line, row in json_lines(file))


def _csv_rows(file: Path) -> Iterator[tuple[str, Row]]:
    """The rows of a CSV file, whose cells are texts, numbers or empty."""
    csv.field_size_limit(LONGEST_LINE)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines, strict=True)
            for row in reader:
                if None in row or None in row.values():
                    raise StudyError(f"{file}: line {reader.line_num}: not as many cells as columns")
                yield f"{file}: line {reader.line_num}", {name: cell or None for name, cell in row.items()}
    except (csv.Error, UnicodeDecodeError) as error:
        raise StudyError(f"{file}: not a CSV file in UTF-8: {error}") from None


def _cell(row: Row, name: str | None, where: str) -> Any:
    if name not in row:
        raise StudyError(f"{where}: no column {name!r}; columns here: {', '.join(map(str, row))}")
    return row[name]


def _name(row: Row, column: str | None, where: str) -> str:
    """A text or a whole number that names a problem or an arm."""
    value = _cell(row, column, where)
    if type(value) in (str, int):
        return str(value)
    raise StudyError(f"{where}: {column} is a {type(value).__name__}, not a text or a whole number")


def _number(value: Any, where: str) -> float:
    """A score; CSV has numbers as texts."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise StudyError(f"{where} is {value[:40]!r}, not a finite number") from None
    return number(value, where)


def _whole(value: Any, where: str) -> int:
    given = _number(value, where)
    if not abs(given) < 2**53 or given != int(given):
        raise StudyError(f"{where} is {str(value)[:40]!r}, not a whole number")
    return int(given)


def _flag(value: Any, where: str) -> bool:
    """Whether something is right or was cut off: true, false, 1 or 0."""
    known = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
    if (flag := known.get(str(value).lower())) is None:
        raise StudyError(f"{where} is {str(value)[:40]!r}, not true or false")
    return flag


def _optional(read: Any, row: Row, name: str | None, where: str) -> Any:
    """A cell of a column that the YAML may leave out and that may be null."""
    value = None if name is None else _cell(row, name, where)
    return None if value is None else read(value, f"{where}: {name}")
