"""Preparation of a set of problems in one schema. Unusable problems are left out and counted, or refused.

The command `python -m reward_ablation.data` calls it. The checks before any job prepare small sets with it for trial.
It is apart from the command because this code, with what it imports, decides the sets: if it changes, they are
prepared again. A gold is the right answer to a problem, from the data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from reward_ablation.config.base import Section
from reward_ablation.config.sections.data import FileData, HubData, ProblemSource, Switch, further_columns
from reward_ablation.data.further_columns import typed_column
from reward_ablation.data.reading import Rows, missing_word
from reward_ablation.data.sources import REPOSITORIES, load
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_PUNCTUATION = re.compile(r"""[\s?!.,;:%$'"`_\\\u2026]*""")
#: Why a gold cannot be used, by the status that it gets when it is graded as an answer.
_WHY = {"unparseable": "unreadable: braces, nesting, length or control characters", "error": "nothing in it to compare"}
_NAMED = 3  # failing problems that the message names
_SHOWN = 50  # characters of a gold that it shows


class PrepareSpec(Section):
    """All that decides what `prepare` writes, as the workflow passes it, but for the files of other sets."""

    source: ProblemSource
    duplicates: Switch = "refuse"
    overlap: Switch = "refuse"
    golds: bool = Field(True, description="false: keep problems without an answer, and check no answer.")
    content: str | None = Field(None, description="Digest that a local file had when the workflow was planned.")
    apart_from: list[Any] = Field([], description="Where the other sets come from: only for the key of a run.")

    @model_validator(mode="before")
    @classmethod
    def _lift_digest(cls, data: Any) -> Any:
        # The workflow writes `content` inside the source, but the config's models of sources have no such key.
        if isinstance(data, dict) and isinstance(data.get("source"), dict) and "content" in data["source"]:
            source = dict(data["source"])
            return {**data, "content": source.pop("content"), "source": source}
        return data


def schema(golds: bool = True) -> pa.Schema:
    """Columns that every prepared set of problems has; without `golds` an answer may be null."""
    import pyarrow as pa

    columns = ("id", "question", "answer", "solution", "source", "split", "level", "subject")
    types = {"level": pa.int64()}
    nullable = ("solution", "level", "subject") if golds else ("answer", "solution", "level", "subject")
    return pa.schema([pa.field(name, types.get(name, pa.string()), nullable=name in nullable) for name in columns])


def prepare(spec: PrepareSpec, name: str, output: Path, apart_from: Sequence[Path] = ()) -> None:
    """Load, check and write a set of problems, Parquet, and its counts as .json, without questions of `apart_from`."""
    check_unchanged(spec)
    further = further_columns(spec.source)
    raw = load(spec.source, spec.golds)
    check_unchanged(spec)  # again, because the file was read after the first check
    rows = normalised(raw, name, further)
    kept = [row for row in rows if row["answer"] or not spec.golds]
    counts = {"dropped_no_gold": len(rows) - len(kept)}
    words = dict(Counter(word for row in raw if (word := missing_word(row.get("answer")))))
    if words:
        listed = ", ".join(f"{word!r} ({count})" for word, count in words.items())
        remedy = r"where such a word is the answer, write it as \text{...}"
        print(f"{name}: golds that count as missing: {listed}; {remedy}", flush=True)

    repeated = find_duplicates(kept)
    if spec.duplicates == "refuse":
        _refuse(repeated, f"{name}: {{}} more than once", "duplicates: drop keeps the first of each")
    kept = [row for row in kept if row["id"] not in repeated]
    counts["dropped_duplicates"] = len(repeated)

    shared = find_overlap(kept, apart_from)
    if spec.overlap == "refuse":
        _refuse(shared, f"{name}: {{}} in an evaluation set too", "overlap: drop takes them out of this set")
    kept = [row for row in kept if row["id"] not in shared]
    counts["dropped_overlap"] = len(shared)

    if not kept:
        listed = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in counts.items())
        raise StudyError(f"{name}: none of {len(rows)} problems is left ({listed})")
    if spec.golds:
        check_golds(kept, name)
    write_parquet(to_table(kept, name, spec.golds, further), output)
    origin = provenance(spec)
    missing = {"golds_taken_as_missing": words} if words else {}
    record = {"rows": len(kept), **counts, **missing, "source": origin, "sha256": sha256(output)}
    write_json(record, output.with_suffix(".json"))


def _refuse(found: dict[str, str], message: str, remedy: str) -> None:
    """Refuse questions that occur again, if there are any."""
    for ours, other in found.items():
        occur = "1 question occurs" if len(found) == 1 else f"{len(found)} questions occur"
        raise StudyError(f"{message.format(occur)}, first {ours} (as {other}); data.{remedy}")


def check_unchanged(spec: PrepareSpec) -> None:
    """Refuse a local file that changed after planning, because the runs' keys would name other problems."""
    path = Path(getattr(spec.source, "path", None) or "")
    if spec.content is not None and path.is_file() and sha256(path) != spec.content:
        raise StudyError(f"{path}: has changed since the workflow was planned; start the workflow again")


def normalised(rows: Rows, name: str, further: Sequence[str] = ()) -> Rows:
    """Rows with every column of the schema, texts as str, and a unique id and a question in each row."""
    # `level` and `further` columns stay as they are. Id, question and gold lose white space at both ends. A text that
    # is empty, NaN or a word for a missing value becomes None.
    result: dict[str, dict[str, Any]] = {}
    for index, raw in enumerate(rows):
        where = f"{name}: row {index}"
        row: dict[str, Any] = {
            column: raw.get(column) if column == "level" else as_text(raw.get(column), f"{where}: {column}")
            for column in schema().names
        }
        for column in ("id", "question", "answer"):
            row[column] = (row[column] or "").strip() or None
        for column in ("question", "answer", "solution", "subject"):
            if missing_word(row[column]):
                row[column] = None
        row |= {column: raw.get(column) for column in further}
        for column in ("id", "question"):
            if row[column] is None:
                found = f" (but {word!r})" if (word := missing_word(raw.get(column))) else ""
                raise StudyError(f"{where}: no {column}{found}; every problem needs one")
        if row["id"] in result:
            raise StudyError(f"{where}: id {row['id']} occurs twice; ids must differ")
        result[row["id"]] = row
    return [*result.values()]


def as_text(value: Any, where: str) -> str | None:
    """Text as it is, a number as its shortest digits (72.0 is "72", a decimal keeps all), None or NaN as None."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    raise StudyError(f"{where} is a {type(value).__name__}; it must be text or a number")


def question_key(question: str) -> str:
    """Key of a question, without regard to letter case and white space."""
    return " ".join(question.split()).casefold()


def find_duplicates(rows: Rows) -> dict[str, str]:
    """Ids of rows whose question occurs in an earlier row, each with the id of the first such row."""
    first: dict[str, str] = {}
    repeated = {}
    for row in rows:
        before = first.setdefault(question_key(row["question"]), row["id"])
        if before != row["id"]:
            repeated[row["id"]] = before
    return repeated


def find_overlap(rows: Rows, prepared: Sequence[Path]) -> dict[str, str]:
    """Ids of rows whose question is also in a prepared set, each with the `set: id` of that question."""
    import pyarrow.parquet as pq

    elsewhere: dict[str, str] = {}
    for path in prepared:
        if not path.is_file():
            raise StudyError(f"{path}: no such file; --apart-from takes prepared sets")
        for row in pq.read_table(path, columns=["id", "question"]).to_pylist():
            elsewhere.setdefault(question_key(row["question"]), f"{path.stem}: {row['id']}")
    keys = {row["id"]: question_key(row["question"]) for row in rows}
    return {problem: elsewhere[key] for problem, key in keys.items() if key in elsewhere}


def to_table(rows: Rows, name: str, golds: bool = True, further: Sequence[str] = ()) -> pa.Table:
    """Rows as a table of the schema and of `further` columns."""
    import pyarrow as pa

    fields = [*schema(golds), *(typed_column(rows, column, name) for column in further)]
    try:
        return pa.Table.from_pylist(rows, schema=pa.schema(fields))
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can contain
        raise StudyError(f"{name}: a text has a character that is not Unicode ({error.reason})") from error


def provenance(spec: PrepareSpec) -> dict[str, Any]:
    """The source as in the config, with the repository and commit of a known data set, or the digest of a file."""
    source = spec.source
    origin = source.model_dump(exclude={"too_long"})  # it decides nothing about the prepared set
    if isinstance(source, HubData) and source.path is None:
        repository = REPOSITORIES[source.source]
        return origin | {"repository": repository.name, "revision": source.revision}
    if isinstance(source, HubData | FileData):
        return origin | {"sha256": sha256(str(source.path))}
    return origin


def check_golds(rows: Rows, name: str) -> None:
    """Refuse golds that do not grade themselves as correct."""
    failing = {row["id"]: (row["answer"], why) for row in rows if (why := why_ungradable(row["answer"]))}
    if not failing:
        return
    named = list(failing.items())[:_NAMED]
    first = "; ".join(f"{problem}: {_shortened(gold)} ({why})" for problem, (gold, why) in named)
    count = "1 gold does not grade itself" if len(failing) == 1 else f"{len(failing)} golds do not grade themselves"
    more = ", …" if len(failing) > _NAMED else ""
    raise StudyError(
        f"{name}: {count} as correct: {first}{more}; a gold must be the answer alone: correct it in the data, "
        "or leave it empty to drop its problem"
    )


def why_ungradable(gold: str) -> str | None:
    r"""Reason why no completion could be right by this gold, or None."""
    # A gold in a box must be extracted whole and graded as correct. One that contains a marker is a whole solution. One
    # that passes starts no parser, because equal strings are equal.
    from reward_ablation.rewards.grading import grade_answer
    from reward_ablation.rewards.grading.extraction import extract, marker_spans

    if _PUNCTUATION.fullmatch(gold):
        return "punctuation alone"
    markers = [span for answer_format in ("hash", "final", "tag") for span in marker_spans(gold, answer_format)]
    if markers:
        start, end = markers[0]
        return f"has {gold[start:end].strip()} inside"
    answer = extract(rf"\boxed{{{gold}}}", "boxed")
    if answer != (extract(gold, "boxed") or gold.strip()):  # a stray brace, which a parser may forgive
        return _WHY["unparseable"]
    status = grade_answer(answer, gold).status
    return None if status == "correct" else _WHY.get(status, f"{status} in a box")


def _shortened(gold: str) -> str:
    """The start of a gold in quotes, on one line, with escapes if a character cannot be seen."""
    short = gold if len(gold) <= _SHOWN else gold[: _SHOWN - 1] + "…"
    return f"'{short}'" if short.isprintable() else repr(short)
