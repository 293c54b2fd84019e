"""Cells, rows and Markdown tables of the summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import number, p_value

#: An interval that covers at least this share of the metric's range says nothing. Of a count, one that reaches 0 does.
NOTHING_KNOWN = 0.95


def compared(
    study: StudyFile,
    rows: pd.DataFrame,
    labels: list[str],
    kind: str,
    margin: float | None = None,
    more: Sequence[str] = (),
) -> str:
    """Markdown table of estimates with their intervals and tests.

    `rows` are numbered rows of a table of estimates, and `labels` the columns that name a row. `kind` is the heading of
    the estimate's column, and `more` are further columns. With the study's margin of equivalence, the table has the
    p-value of the test of equivalence.
    """
    cells, limits = [], metrics_of_study(study)
    for _, row in rows.iterrows():
        equivalent = [] if margin is None else [p_value(row["p_equivalent"])]
        cells.append(
            [
                *row[labels],
                *estimate(row, limits.limits(row["metric"])),
                p_value(row["p_holm"]),
                *equivalent,
                *row[list(more)],
                row["row"],
            ]
        )
    equivalence = [] if margin is None else [f"p of ±{margin:g} or more"]
    return markdown(
        ["against" if label == "baseline" else label for label in labels]
        + [kind, "interval", "Holm p", *equivalence, *more, "row"],
        cells,
    )


def significant(rows: pd.DataFrame, label: str, confidence: float) -> str:
    """Say in a sentence which rows are significant after Holm's correction."""
    level = level_of(confidence)
    names = list(rows.loc[rows["p_holm"] < level, label])
    return f"{len(names)} of {len(rows)} with Holm p < {level:g}" + (f": {', '.join(names)}." if names else ".")


def of_metric(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows of a metric, with their numbers in the CSV file."""
    rows = numbered(table)
    return rows[rows["metric"] == metric]


def numbered(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column `row`: the number of each row in the table's CSV file, from 1."""
    return table.assign(row=range(1, len(table) + 1))


def estimate(row: pd.Series, limits: Limits) -> list[str]:
    """Cells of a row's estimate and interval."""
    low, high = number(row["low"], limits), number(row["high"], limits)
    whole_range = limits.finite and row["high"] - row["low"] >= NOTHING_KNOWN * (limits.high - limits.low)
    says_nothing = whole_range or (not limits.finite and row["low"] == limits.low < row["estimate"])
    return [number(row["estimate"], limits), f"[{low}, {high}]{' (says nothing)' if says_nothing else ''}"]


def plain(words: str) -> str:
    """Escape a text, so that Markdown shows it as it is, in one line."""
    return re.sub(r"([\\`*$|<\[\]])", r"\\\1", " ".join(words.split()))


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
