"""Sources of problems: functions from raw rows to rows with the columns of a problem, in the same order.

`problems` calls `load` when it prepares a set, and the checks before any job when they look at the rows of a small
file. They also ask the hub for the repositories that are named here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.config.sections.data import (
    OF_FILES,
    FileData,
    HubData,
    ProblemSource,
    WordProblems,
    further_columns,
)
from reward_ablation.data.fields import check_question, column_values, refuse_messages
from reward_ablation.data.further_columns import from_csv, is_csv
from reward_ablation.data.reading import MISSING_WORDS, Rows, read_file, read_hub
from reward_ablation.system.errors import StudyError


class Repository(NamedTuple):
    """Where a known data set is on the hub, and how many rows each split has."""

    name: str
    config: str
    rows: dict[str, int]


#: The sizes are those of the papers: Cobbe et al. 2021, Hendrycks et al. 2021, Lightman et al. 2023, Austin et al.
#: 2021, Chen et al. 2021, Zhou et al. 2023.
REPOSITORIES = {
    "gsm8k": Repository("openai/gsm8k", "main", {"train": 7473, "test": 1319}),
    "math": Repository("DigitalLearningGmbH/MATH-lighteval", "default", {"train": 7500, "test": 5000}),
    "math500": Repository("HuggingFaceH4/MATH-500", "default", {"test": 500}),
    "mbpp": Repository(
        "google-research-datasets/mbpp", "full", {"train": 374, "test": 500, "validation": 90, "prompt": 10}
    ),
    "humaneval": Repository("openai/openai_humaneval", "openai_humaneval", {"test": 164}),
    "ifeval": Repository("google/IFEval", "default", {"train": 541}),
}


def load(source: ProblemSource, golds: bool = True) -> Rows:
    """Rows of a source with the columns of a problem, the first `limit`; with `golds`, a file must have answers."""
    # A row may lack columns, and a missing value may be a word such as NA: `problems` makes both None.
    match source:
        case HubData():
            raw = known_rows(source)
            rows = known_problems(raw, source.source, source.split)
        case FileData():
            rows = user_file(source, golds)
        case WordProblems():
            from reward_ablation.data.word_problems import generate

            ids = {"source": "word_problems", "split": source.split}
            generated = generate(source.count, source.seed, source.split)
            rows = [{"id": f"word_problems/{source.split}/{i}", **ids, **row} for i, row in enumerate(generated)]
    return rows[: source.limit]


def known_rows(source: HubData) -> Rows:
    """All raw rows of a known data set, from the hub or a local copy."""
    repository = REPOSITORIES[source.source]
    if source.path is not None:
        rows, where = read_file(source.path), source.path
    else:
        assert source.revision  # the config pins a revision if the user does not
        rows, where = read_hub(repository.name, repository.config, source.split, source.revision), repository.name
    expected = repository.rows[source.split]
    if len(rows) != expected:
        raise StudyError(
            f"{where}: {len(rows)} rows, but {source.source} {source.split} has {expected}; "
            "for a part of it use limit, for other problems source: file"
        )
    return rows


def known_problems(raw: Rows, source: str, split: str) -> Rows:
    """Raw rows of a known data set as problems."""
    match source:
        case "gsm8k":
            return gsm8k(raw, split)
        case "mbpp":
            return mbpp(raw, split)
        case "humaneval":
            return humaneval(raw, split)
        case "ifeval":
            return ifeval(raw, split)
    return math(raw, source, split)


def gsm8k(raw: Rows, split: str) -> Rows:
    """GSM8K: the gold follows `####` and loses its commas. The solution stays as it is, with its <<…>>."""
    rows = []
    for index, row in enumerate(raw):
        solution = field(row, "answer", f"gsm8k row {index}")
        question = field(row, "question", f"gsm8k row {index}")
        _, mark, gold = str(solution).rpartition("####")
        answer = gold.replace(",", "") if mark else None
        common = {"id": f"gsm8k/{split}/{index}", "source": "gsm8k", "split": split}
        rows.append({**common, "question": question, "answer": answer, "solution": solution})
    return rows


def math(raw: Rows, source: str, split: str) -> Rows:
    r"""MATH and MATH-500: the gold is the content of the last \boxed, as LaTeX."""
    # Some copies have the gold as `answer`, others only inside `solution`; some say `subject`, others `type`.
    from reward_ablation.rewards.grading.extraction import last_box

    rows = []
    for index, row in enumerate(raw):
        where = f"{source} row {index}"
        solution = field(row, "solution", where)
        rows.append(
            {
                "id": f"{source}/{split}/{index}",
                "question": field(row, "problem", where),
                "answer": row["answer"] if "answer" in row else last_box(str(solution)),
                "solution": solution,
                "source": source,
                "split": split,
                "level": level(row.get("level"), where),
                "subject": row.get("subject", row.get("type")),
            }
        )
    return rows


def mbpp(raw: Rows, split: str) -> Rows:
    """MBPP: the task with its first test, which shows the function's name; `unit_tests`: set-up code and asserts."""
    rows = []
    for index, row in enumerate(raw):
        where = f"mbpp row {index}"
        task, text, set_up = field(row, "task_id", where), field(row, "text", where), row.get("test_setup_code")
        tests = list_field(row, "test_list", where)
        rows.append(
            {
                "id": f"mbpp/{split}/{task}",
                "question": f"{text}\n\nYour code should pass this test:\n\n{tests[0]}",
                "solution": row.get("code"),
                "source": "mbpp",
                "split": split,
                "unit_tests": [*([set_up] if set_up else []), *tests],
            }
        )
    return rows


def humaneval(raw: Rows, split: str) -> Rows:
    """HumanEval: the head of a function, also as `code_before`; `unit_tests`: one program that checks the whole."""
    rows = []
    for index, row in enumerate(raw):
        where = f"humaneval row {index}"
        prompt, test = field(row, "prompt", where), field(row, "test", where)
        rows.append(
            {
                "id": f"humaneval/{split}/{str(field(row, 'task_id', where)).removeprefix('HumanEval/')}",
                "question": prompt,
                "solution": row.get("canonical_solution"),
                "source": "humaneval",
                "split": split,
                "code_before": prompt,
                "unit_tests": [f"{test}\ncheck({field(row, 'entry_point', where)})\n"],
            }
        )
    return rows


def ifeval(raw: Rows, split: str) -> Rows:
    """IFEval: `instructions` is a list of {"id", "kwargs"}; on the hub, each has the keywords of all, mostly null."""
    rows = []
    for index, row in enumerate(raw):
        where = f"ifeval row {index}"
        ids, kwargs = list_field(row, "instruction_id_list", where), list_field(row, "kwargs", where)
        if len(ids) != len(kwargs) or not all(isinstance(own, dict) for own in kwargs):
            raise StudyError(f"{where}: kwargs must hold one object for each of the {len(ids)} instructions")
        instructions = [
            {"id": name, "kwargs": {key: value for key, value in own.items() if value is not None}}
            for name, own in zip(ids, kwargs, strict=True)
        ]
        common = {"id": f"ifeval/{split}/{field(row, 'key', where)}", "source": "ifeval", "split": split}
        rows.append({**common, "question": field(row, "prompt", where), "instructions": instructions})
    return rows


def user_file(source: FileData, golds: bool = True) -> Rows:
    """Rows of a user's own file, by the config's `columns`; an id may be the file's name and the row's number."""
    # Without an entry in `columns`, a column of `OF_FILES` has its own name in the file, and any other is left out.
    raw, names = read_file(source.path), {column: column for column in OF_FILES} | source.columns
    values = {
        ours: column_values(raw, theirs, f"{source.path}: columns.{ours}")
        for ours, theirs in names.items()
        if theirs is not None
    }
    present = ", ".join(dict.fromkeys(name for row in raw for name in row))
    for ours, theirs in source.columns.items():
        if theirs is not None and values[ours] is None:
            raise StudyError(f"{source.path}: columns.{ours}: no column '{theirs}'; columns here: {present}")
    for column in ("question", "answer") if golds else ("question",):
        if values.get(column) is None:
            without = "; where the problems have no answers, write columns: {answer: null}" * (column == "answer")
            raise StudyError(
                f"{source.path}: no column '{column}'; name its column with columns: {{{column}: ...}}; "
                f"columns here: {present}{without}"
            )
    check_question(raw, str(names["question"]), source.path)

    stem, further = Path(source.path).stem, further_columns(source)
    texts = ("question", "answer", "solution", "subject")
    rows: Rows = []
    for index in range(len(raw)):
        where = f"{source.path} row {index}"
        row = {column: known[index] if (known := values.get(column)) else None for column in (*texts, *further)}
        for column in texts:
            refuse_messages(row[column], column, str(names[column]), where)
        row["id"] = ids[index] if (ids := values["id"]) else f"file/{stem}/{index}"
        row["level"] = level(levels[index], where) if (levels := values["level"]) else None
        rows.append(row | {"source": "file", "split": "all"})
    if is_csv(source.path):
        from_csv(rows, [column for column in further if source.columns[column] in raw[0]], source.path)
    return rows


def field(row: dict[str, Any], name: str, where: str) -> Any:
    """A column of a raw row, which must be there."""
    if name not in row:
        raise StudyError(f"{where}: no column '{name}'; columns here: {', '.join(row)}")
    return row[name]


def list_field(row: dict[str, Any], name: str, where: str) -> list[Any]:
    """A column of a raw row that holds a list of at least one value."""
    value = field(row, name, where)
    if not isinstance(value, list) or not value:
        raise StudyError(f"{where}: {name} must be a list of at least one value")
    return value


def level(value: Any, where: str) -> int | None:
    """A difficulty, such as 5, "5" or "Level 5", as a number. None for a missing value and for MATH's "Level ?"."""
    text = "" if value is None or value != value else str(value).strip()  # NaN is a missing number
    if text in ("", "Level ?") or text in MISSING_WORDS:
        return None
    match = re.fullmatch(r"(?:Level )?(-?\d{1,18})(?:\.0+)?", text)
    if match is None:
        raise StudyError(  # the text may be a whole solution
            f"{where}: level {text[:60]!r} is no whole number; map level to another column, or leave it empty"
        )
    return int(match[1])
