"""What readers share: checked access to parsed JSON, options, and the way from rows to the common tables.

The readers of other systems' files call it, so that each has only what its system writes otherwise.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.sections.evaluation import COLUMNS
from reward_ablation.data.problems import as_text
from reward_ablation.imported.files import found, json_lines, number, text
from reward_ablation.imported.rows import ANSWERS, ROLLOUTS, SCORE, Answers, Rollouts, numbered
from reward_ablation.system.errors import StudyError, first_line

Row = dict[str, Any]

#: Whole numbers are kept below this bound, up to which doubles have them exactly.
WHOLE = 1 << 53


class Record:
    """An object of a file; errors say where it is. Null counts as an empty object, and as a number it becomes NaN."""

    def __init__(self, value: Any, where: str):
        if not isinstance(value, dict | None):
            raise StudyError(f"{where} is a {type(value).__name__}, not an object; is this file of another format?")
        self.value: Row = value or {}
        self.where = where

    def __getitem__(self, name: str) -> Any:
        if name not in self.value:
            here = ", ".join(self.value) or "nothing"
            raise StudyError(f"{self.where}: no {name}; here: {here}; is this file of another format?")
        return self.value[name]

    def inner(self, name: str) -> Record:
        """The object in a field; an empty one where it is absent or null."""
        return Record(self.value.get(name), f"{self.where}: {name}")

    def each(self, name: str) -> list[Record]:
        """The objects of the list in a field."""
        return [Record(value, f"{self.where}: {name} {at}") for at, value in enumerate(self.list_of(name), 1)]

    def text(self, name: str) -> str:
        return text(self[name], f"{self.where}: {name}")

    def digits(self, name: str) -> str | None:
        """A text, or a number as its digits, as in a set of problems, which refuses truth values, too."""
        return as_text(self[name], f"{self.where}: {name}")

    def gold(self, name: str) -> str | None:
        """A right answer; None where it is absent, or a list or an object, which no text can be compared with."""
        return None if isinstance(self.value.get(name), list | dict | None) else self.digits(name)

    def whole(self, name: str) -> int:
        value = self[name]
        if type(value) in (int, float) and abs(value) < WHOLE and value == int(value):
            return int(value)
        raise StudyError(f"{self.where}: {name} is {str(value)[:40]!r}, not a whole number; correct it")

    def flag(self, name: str) -> bool:
        """Whether something holds: true, false, 1 or 0."""
        if isinstance(self[name], bool | int | float) and self[name] in (0, 1):
            return bool(self[name])
        raise StudyError(f"{self.where}: {name} is {str(self[name])[:40]!r}, not true or false; write 1 or 0")

    def key(self, name: str) -> str:
        """A text or a whole number that names a problem or an arm."""
        if type(self[name]) in (str, int):
            return str(self[name])
        raise StudyError(
            f"{self.where}: {name} is a {type(self[name]).__name__}, not a text or a whole number; export it so"
        )

    def score(self, name: str) -> float:
        return number(self[name], f"{self.where}: {name}")

    def numbers(self, name: str) -> list[float]:
        """The numbers of the list in a field."""
        return [number(value, f"{self.where}: {name}") for value in self.list_of(name)]

    def list_of(self, name: str) -> list[Any]:
        """The list in a field; an empty one where it is absent or null."""
        values = self.value.get(name) or []
        if isinstance(values, list):
            return values
        raise StudyError(f"{self.where}: {name} is a {type(values).__name__}, not a list; is this another format?")

    def scores(self, leave_out: tuple[str, ...] = ()) -> dict[str, float]:
        """The fields that are numbers, truth values or null, as floats; a null becomes NaN."""
        numeric = [name for name, value in self.value.items() if isinstance(value, bool | int | float | None)]
        return {name: self.score(name) for name in numeric if name not in leave_out}

    def label(self, name: str) -> str | None:
        """A text, a whole number or a truth value as a text; None where there is something else."""
        value = self.value.get(name)
        return str(value) if isinstance(value, str | int) else None


def records(file: Path) -> Iterator[Record]:
    """The lines of a JSONL file."""
    for line_number, line in json_lines(file):
        yield Record(line, f"{file}: line {line_number}")


class RolloutOptions(Section):
    """Options of rollouts, but of tables and own runs. `scores`: the field of each component; default all."""

    scores: dict[Name, Line] | None = Field(None, min_length=1)


class AnswerOptions(Section):
    """Options of answers, but of tables and own. `metric` is 1 where one is correct; `mode`, where files say none."""

    metric: Line | None = None
    mode: Literal["greedy", "sampled"] | None = None


class TaskOptions(AnswerOptions):
    """Options of readers of tasks. `task` is a task, or a pattern such as `mmlu_*`, whose tasks are then subjects."""

    task: Line | None = None


def the_one(path: object, kind: str, names: Iterable[str], wanted: str | None) -> str:
    """The wanted one of several names, or the only one; the option for it has the name of the kind."""
    names = sorted(names)
    if wanted in names or (wanted is None and len(names) == 1):
        return wanted or names[0]
    problem = f"{len(names)} {kind}s" if wanted is None else f"no {kind} {wanted!r}"
    raise StudyError(f"{path}: {problem}; write the option {kind} with one of: {', '.join(names) or 'none here'}")


def one_file(path: Path, files: list[Path]) -> Path:
    """The only one of some files."""
    if len(files) > 1:
        raise StudyError(f"{path}: {len(files)} files; name one of them: {files[0]}, {files[1]}")
    return files[0]


def files_of_tasks(path: Path, beginning: str, ending: str, task: str | None) -> dict[str, Path]:
    """The file of each task in a folder, BEGINNING_TASK_DATE.ENDING: of the only task, or of all that `task` names."""
    named = re.compile(rf"{beginning}_(.+)_\d{{4}}-\d\d-\d\dT[\d.-]+\.{ending}")
    files: dict[str, list[Path]] = {}
    for file in found(path, f"**/{beginning}_*.{ending}"):
        match = named.fullmatch(file.name)
        files.setdefault(match[1] if match else file.stem, []).append(file)
    chosen = [name for name in files if task is not None and fnmatchcase(name, task)]
    return {name: one_file(path, files[name]) for name in chosen or [the_one(path, "task", files, task)]}


def of_task(row: Row, task: str, tasks: Collection[str]) -> Row:
    """A row of one of several tasks: the task is its subject, because ids are unique within a task only."""
    return {**row, "problem_id": f"{task}/{row['problem_id']}", "subject": task} if len(tasks) > 1 else row


def mode_of(known: str | None, options: AnswerOptions, missing: list[str], several: bool = False) -> str:
    """How answers were drawn: as the files say, otherwise as the option `mode` says, or guessed with a sentence."""
    if mode := known or options.mode:
        return str(mode)
    guess = "sampled" if several else "greedy"
    missing.append(f"The files do not say how answers were drawn; they count as {guess} (option mode).")
    return guess


def prompt_id(prompt: str) -> str:
    """A problem id for formats without ids: equal prompts are one problem, in all runs."""
    return hashlib.sha256(prompt.encode(errors="replace")).hexdigest()[:16]


def plain_text(messages: Any) -> str:
    """A text, or the text of messages, with their roles if these differ."""
    if isinstance(messages, str):
        return messages
    listed = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    several = len({str(message.get("role")) for message in listed}) > 1
    return "\n\n".join((f"{message.get('role')}: " if several else "") + _content(message) for message in listed)


def _content(message: Row) -> str:
    """The text of a message; of a part that is no text, its type."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") or f"[{part.get('type')}]" for part in parts if isinstance(part, dict)]
    return content if isinstance(content, str) else "\n\n".join(map(str, texts))


def rollouts(
    path: Path, rows: list[Row], options: RolloutOptions, missing: list[str], metrics: pa.Table | None = None
) -> Rollouts:
    """Rollouts of rows. A row's `scores` are of components; `further` scores only if the option `scores` names them."""
    here = _names(rows, "scores")
    fields = dict(zip(here, here, strict=True)) if options.scores is None else options.scores
    all_here = [*here, *_names(rows, "further")]
    if unknown := [field for field in fields.values() if field not in all_here]:
        raise StudyError(f"{path}: no score {unknown[0]!r}; scores here: {', '.join(all_here) or 'none'}")
    table = []
    for row in numbered(rows):
        numbers = {**row["further"], **row["scores"]}
        known = {name: row[name] for name in ("total", "advantage") if not math.isnan(row.get(name, math.nan))}
        scores = {SCORE + name: numbers.get(field, math.nan) for name, field in fields.items()}
        table.append({**row, "total": None, "advantage": None, **known, **scores})
    for name in fields:
        if absent := sum(math.isnan(row[SCORE + name]) for row in table):
            missing.append(f"{absent} of {len(rows)} completions have no score {name}.")
    types = {**ROLLOUTS, **{SCORE + name: pa.float64() for name in fields}}
    return Rollouts(table_of(path, table, types), list(dict.fromkeys(missing)), metrics)


def answers(path: Path, rows: list[Row], metric: str | None, missing: list[str]) -> Answers:
    """Answers of rows. One is correct if its `metric`, or its only number, is 1; without a number it is left out."""
    names = _names(rows, "scores")
    metric = the_one(path, "metric", names, metric) if rows else ""
    sample_of: Counter[str] = Counter()
    uncounted = any("sample" not in row for row in rows)
    for row in rows:
        row.setdefault("sample", sample_of[row["problem_id"]])
        sample_of[row["problem_id"]] += 1
    scored = [row for row in rows if not math.isnan(row["scores"].get(metric, math.nan))]
    if len(scored) < len(rows):
        missing.append(f"{len(rows) - len(scored)} of {len(rows)} answers have no {metric} and are left out.")
    greedy = Counter(row["problem_id"] for row in scored if row["mode"] == "greedy")
    if several := [problem for problem, count in greedy.items() if count > 1]:
        if uncounted:
            raise StudyError(
                f"{path}: {greedy[several[0]]} greedy answers to {several[0]}; give each question an id of its own (of "
                "a table by columns.problem), or write mode: sampled"
            )
        missing.append("Questions have several greedy answers, one for each epoch; a question has their mean.")
    if (values := {row["scores"][metric] for row in scored}) - {0, 1}:
        nowhere = "" if 1 in values else f", and here none is, as it goes up to {max(values):g}"
        missing.append(f"{metric} has values beside 0 and 1; an answer is correct only where it is 1{nowhere}.")
    else:
        names = [name for name in names if name != metric]
    lengths = [name for name in ("tokens", "truncated") if any(row.get(name) is not None for row in rows)]
    taken = {*ANSWERS, *COLUMNS, *lengths}
    columns = {name: re.sub(r"\W", "_", f"{name}_value" if name in taken else name) for name in names}
    for name, column in columns.items():
        if same := [other for other in names if columns[other] == column and other != name]:
            raise StudyError(
                f"{path}: the metrics {name!r} and {same[0]!r} would both be {column}; rename one of the two"
            )
    table = [
        {**row, "correct": row["scores"][metric] == 1}
        | {column: row["scores"].get(name, math.nan) for name, column in columns.items()}
        for row in scored
    ]
    types = {**ANSWERS, **dict.fromkeys([*lengths, *columns.values()], pa.float64())}
    return Answers(table_of(path, table, types), list(dict.fromkeys(missing)))


def step_metrics(lines: Iterable[tuple[Record, Record]], names: dict[str, str]) -> pa.Table | None:
    """Metrics by step, renamed to TRL's names by `names`; or None. Step 0, before training, is left out."""
    by_step: dict[int, dict[str, float]] = {}
    for line, numbers in lines:
        known = {trl_name: numbers.score(name) for name, trl_name in names.items() if name in numbers.value}
        if known and line.whole("step"):
            by_step.setdefault(line.whole("step"), {}).update(known)
    rows = [{"step": step, **row} for step, row in sorted(by_step.items())]
    types = {"step": pa.int64(), **{name: pa.float64() for row in rows for name in row if name != "step"}}
    return table_of("metrics", rows, types) if rows else None


def _names(rows: list[Row], kind: str) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.get(kind, ())))


def table_of(path: object, rows: list[Row], types: dict[str, pa.DataType]) -> pa.Table:
    """Rows as a table. A text that no file can hold is refused."""
    try:
        return pa.Table.from_pylist(rows, schema=pa.schema(types))
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise StudyError(f"{path}: a text has half a character (a surrogate), {half}; take it out") from None
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise StudyError(f"{path}: {first_line(error)}; correct this value") from None
