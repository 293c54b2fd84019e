"""The common form of files from elsewhere: rollouts of training, and answers to evaluation questions.

A reader turns files of one system into `Rollouts` or `Answers`. What the files lack is null, and a sentence in
`missing` says so. `imported.runs` and `imported.answers` check the tables of all readers by `checked`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reward_ablation.system.errors import StudyError

#: Columns of rollouts with their types; one column `score_NAME` of doubles for each component follows.
ROLLOUTS = {
    **{"step": pa.int64(), "problem_id": pa.string(), "rollout": pa.int64(), "completion": pa.string()},
    **{"prompt": pa.string(), "gold": pa.string(), "tokens": pa.int64(), "truncated": pa.bool_()},
    **{"total": pa.float64(), "advantage": pa.float64()},
}

#: Columns of answers with their types; columns of further metrics, of doubles, follow.
ANSWERS = {
    **{"problem_id": pa.string(), "question": pa.string(), "gold": pa.string(), "level": pa.string()},
    **{"subject": pa.string(), "mode": pa.string(), "sample": pa.int64(), "completion": pa.string()},
    "correct": pa.bool_(),
}

#: Columns that have no nulls. A completion is null where an answers' file keeps none.
FILLED = {
    "rollouts": ("step", "problem_id", "rollout", "completion"),
    "answers": ("problem_id", "question", "mode", "sample", "correct"),
}

#: Beginning of the names of columns of scores.
SCORE = "score_"


@dataclass
class Rollouts:
    """Completions of one run, in the columns of `ROLLOUTS`, with scores, NaN where a reward gave none.

    `missing` has a sentence for each thing that the files lack. `metrics` has `step`, from 1, and TRL's names.
    """

    table: pa.Table
    missing: list[str] = field(default_factory=list)
    metrics: pa.Table | None = None

    @property
    def components(self) -> list[str]:
        """Names of the components that the files have scores of."""
        return [name.removeprefix(SCORE) for name in self.table.column_names if name.startswith(SCORE)]


@dataclass
class Answers:
    """Answers of one model to the questions of an evaluation, in the columns of `ANSWERS`, with further metrics."""

    table: pa.Table
    missing: list[str] = field(default_factory=list)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics beside `correct`."""
        return [name for name in self.table.column_names if name not in ANSWERS]


def numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give rows of rollouts their number within the group, the completions of one problem at one step, from 0."""
    counts: Counter[tuple[int, str]] = Counter()
    for row in rows:
        group = row["step"], row["problem_id"]
        row["rollout"] = counts[group]
        counts[group] += 1
    return rows


def check_ids(table: pa.Table, question: str, where: str, own_ids: bool) -> list[str]:
    """Refuse an id with two right answers or two questions; with `own_ids`, only a sentence on the questions."""
    # With `own_ids` the system that wrote the file gave the ids: it may vary the prompts of one problem.
    notes = []
    for column, what in (("gold", "right answers"), (question, f"{question}s")):
        pairs = table.select(["problem_id", column]).drop_null().group_by(["problem_id", column], use_threads=False)
        values: dict[str, list[str]] = {}
        for row in pairs.aggregate([]).to_pylist():
            values.setdefault(row["problem_id"], []).append(row[column])
        several = {problem: texts for problem, texts in values.items() if len(texts) > 1}
        if several and (column == "gold" or not own_ids):
            problem, (one, other, *_) = next(iter(several.items()))
            leave_out = "" if column == "gold" else f", or leave columns.{column} out where they vary by intent"
            raise StudyError(
                f"{where}: problem {problem} has two {what}, {one!r:.40} and {other!r:.40}; give each problem an "
                f"id of its own (of a table by columns.problem){leave_out}"
            )
        if several:
            notes.append(f"{len(several)} of {len(values)} problems have several {what}; the first one counts.")
    return notes


def group_size(rollouts: pa.Table) -> int:
    """The commonest number of completions of a problem at a step; of several, the largest."""
    groups = _groups_by_size(rollouts)
    return max(groups, key=lambda size: (groups[size], size))


def larger_groups(rollouts: pa.Table) -> list[str]:
    """A sentence where some groups have a multiple of the commonest number of completions."""
    groups, size = _groups_by_size(rollouts), group_size(rollouts)
    larger = sum(count for each, count in groups.items() if each > size and each % size == 0)
    words = f"have a multiple of {size} completions: a prompt that occurs twice in a step counts as one group"
    return [f"{larger} of {groups.total()} groups {words}."] if larger and size > 1 else []


def _groups_by_size(rollouts: pa.Table) -> Counter[int]:
    """How many groups there are of each size."""
    return Counter(rollouts.group_by(["step", "problem_id"]).aggregate([([], "count_all")])["count_all"].to_pylist())


def checked(kind: str, table: pa.Table, where: str) -> pa.Table:
    """A reader's table of `kind`, "rollouts" (by step) or "answers", with all columns and their types."""
    # Rows that cannot be told apart, nulls where a value is needed, and infinite numbers are refused.
    columns = ROLLOUTS if kind == "rollouts" else ANSWERS
    if not len(table):
        raise StudyError(f"{where}: no {kind} in it; name the files of a run that has some")
    further = [name for name in table.column_names if name not in columns]
    arrays = {}
    for name, of_type in [*columns.items(), *((name, pa.float64()) for name in further)]:
        if name not in table.column_names:
            arrays[name] = pa.nulls(len(table), of_type)
            continue
        try:
            arrays[name] = table[name].cast(of_type).combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise StudyError(f"{where}: column {name} is {table[name].type}, not {of_type}; export it so") from None
    for name in FILLED[kind]:
        if arrays[name].null_count:
            row = pc.index(pc.is_null(arrays[name]), True).as_py()
            raise StudyError(f"{where}: row {row + 1}: no {name}; every row needs one")
    for name, array in arrays.items():
        if pa.types.is_floating(array.type) and np.isinf(array.to_numpy(zero_copy_only=False)).any():
            raise StudyError(f"{where}: column {name} has an infinite number; take out the row")
    result = pa.table(arrays)
    labels = ["step", "problem_id", "rollout"] if kind == "rollouts" else ["problem_id", "mode", "sample"]
    counts = result.select(labels).group_by(labels).aggregate([([], "count_all")])
    if len(counts) < len(result):
        row = counts.filter(pc.field("count_all") > 1).to_pylist()[0]
        same = ", ".join(f"{name} {row[name]}" for name in labels)
        raise StudyError(f"{where}: {row['count_all']} rows with {same}; these must tell rows apart")
    if kind == "rollouts" and pc.min(result["step"]).as_py() < 1:
        raise StudyError(f"{where}: step {pc.min(result['step']).as_py()}; steps count from 1: add 1 to all")
    # The order within a step stays: sums of another order would differ by rounding.
    return result.sort_by("step") if kind == "rollouts" else result
