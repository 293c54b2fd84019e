"""Tables of any source, as Parquet, CSV or lines of JSON; the YAML names the columns.

`reward-ablation import` calls it for the format `table`, and reads files of right answers (`golds`) by `rows_of`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from reward_ablation.analysis.words import counted
from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.data.reading import refuse_twice
from reward_ablation.imported.files import LONGEST_LINE, json_lines, parquet_batches, parts, without_nan
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row
from reward_ablation.imported.rows import Answers, Rollouts
from reward_ablation.system.errors import StudyError

T = TypeVar("T")

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
    """Options of `read_rollouts`; `only`, with `arm` and `seed`, is the run that is read of a file with several."""

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
    only, rows, runs = read.only, [], set()
    if only and not (names.arm and names.seed):
        raise StudyError("rollouts.columns: name the columns arm and seed, which tell the runs of one file apart")
    numeric = {names.step, names.seed, names.tokens, names.truncated, names.total, names.advantage}
    for where, row in rows_of(path, {*numeric, *names.scores.values()}, names.completion):
        line = Record(row, where)
        if only:
            runs.add(run := (line.key(str(names.arm)), line.whole(str(names.seed))))
        if not only or run == (only["arm"], only["seed"]):
            rows.append(_rollout(line, names))
    if not rows:
        raise StudyError(f"{path}: no rows" + (f" of arm {only['arm']}, seed {only['seed']}" if only else ""))
    lacking = [f"The table has no {words}." for name, words in _LACKS.items() if getattr(names, name) is None]
    if only:
        lacking.append(f"{path.name} has {counted(len(runs), 'run')}; those that the YAML does not name are left out.")
    return common.rollouts(path, rows, common.RolloutOptions(), lacking)


def _rollout(line: Record, names: RolloutColumns) -> Row:
    given = {name: _optional(line, line.score, getattr(names, name)) for name in ("total", "advantage")}
    return {
        "step": line.whole(names.step),
        "problem_id": line.key(names.problem),
        "completion": line.text(names.completion),
        "prompt": _optional(line, line.text, names.prompt),
        "gold": _optional(line, line.digits, names.gold),
        **{name: value for name, value in given.items() if value is not None},
        "tokens": _optional(line, line.whole, names.tokens),
        "truncated": _optional(line, line.flag, names.truncated),
        "scores": {name: line.score(column) for name, column in names.scores.items()},
        "further": {},
    }


def read_answers(path: Path, options: dict[str, Any]) -> Answers:
    """The answers of a model."""
    read = validate_spec(AnswerOptions, options, "evaluation")
    names: AnswerColumns = read.columns
    if "correct" in names.metrics:
        raise StudyError("evaluation.columns.metrics.correct: columns.correct is that already; give it another name")
    rows = []
    for where, cells in rows_of(path, {names.correct, *names.metrics.values()}, names.completion):
        line = Record(cells, where)
        row: Row = {name: _optional(line, line.text, getattr(names, name)) for name in ("question", "completion")}
        row |= {name: _optional(line, line.digits, getattr(names, name)) for name in ("gold", "level", "subject")}
        problem = line.key(names.problem)
        row |= {"problem_id": problem, "question": row["question"] or problem, "mode": read.mode}
        metrics = {name: line.score(column) for name, column in names.metrics.items()}
        rows.append({**row, "scores": {"correct": float(line.flag(names.correct)), **metrics}})
    lacking = [] if names.completion else ["The table of answers has no texts."]
    return common.answers(path, rows, "correct", lacking)


def rows_of(
    path: Path, numeric: Collection[str | None] = (), completion: str | None = None
) -> Iterator[tuple[str, Row]]:
    """Rows of a file, or of a folder's files, each with its place. In CSV, columns in `numeric` are numbers."""
    # An empty cell of a CSV file is null, but in the column `completion` a text.
    files = parts(path, "*.parquet", "*.csv", "*.jsonl")
    if len(endings := sorted({file.suffix for file in files})) > 1:
        raise StudyError(f"{path}: {' and '.join(endings)} files; name one file, or a folder with one kind")
    for file in files:
        number_of_row = 0
        if file.suffix == ".parquet":
            for batch in parquet_batches(file):
                for row in without_nan(batch).to_pylist():
                    number_of_row += 1
                    yield f"{file}: row {number_of_row}", row
        elif file.suffix == ".csv":
            yield from _csv_rows(file, numeric, completion)
        elif file.suffix not in (".jsonl", ".ndjson", ".json"):
            raise StudyError(f"{file}: a table's name ends in .parquet, .csv or .jsonl; export it as one of these")
        else:
            yield from ((f"{file}: line {line}", row) for line, row in json_lines(file))


def _csv_rows(file: Path, numeric: Collection[str | None], completion: str | None) -> Iterator[tuple[str, Row]]:
    """The rows of a CSV file, each with its place, as in `rows_of`."""
    csv.field_size_limit(LONGEST_LINE)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, strict=True)
            refuse_twice(reader.fieldnames or [], f"{file}: line 1")
            for row in reader:
                if None in row or None in row.values():
                    raise StudyError(f"{file}: line {reader.line_num}: not as many cells as columns")
                cells = {name: cell or None for name, cell in row.items() if name != completion}
                numbers = {name: _value(cell) for name, cell in row.items() if name in numeric}
                yield f"{file}: line {reader.line_num}", {**row, **cells, **numbers}
    except (csv.Error, UnicodeDecodeError) as error:
        raise StudyError(f"{file}: not a CSV file in UTF-8: {error}") from None


def _value(cell: str) -> float | bool | str | None:
    """The number or truth value of a cell of a CSV file; other texts stay, and are refused where they are read."""
    if cell.lower() in ("", "true", "false"):
        return None if cell == "" else cell.lower() == "true"
    with suppress(ValueError):
        return float(cell)
    return cell


def _optional(line: Record, read: Callable[[str], T], name: str | None) -> T | None:
    """A cell of a column that the YAML may leave out and that may be null."""
    return None if name is None or line[name] is None else read(name)
