"""Figure: a page of answers before and after training, as text."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.example_text import RULE, cut, kinds_missing, printable, verdict
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import BASE_COLOUR, WIDTH, arm_looks, page_of_words, replace_undrawable

MONOSPACED = "DejaVu Sans Mono"

#: Marks the end of a line within a text.
LINE_END = "\u21b5 "

#: Most characters of a question or completion, most characters in a line, and the font size at which a line fits.
MOST_CHARACTERS, LINE, SIZE = 310, 118, 6.5

#: Height of a line, and most height of all problems together, in inches. The report's page has the other problems.
LINE_HEIGHT, MOST_INCHES = 0.125, 11.0

#: Most arms whose answers to a problem are shown.
MOST_ARMS = 12

#: Most characters of an arm's name, a problem's id or an answer.
NAME = 40


class Line(NamedTuple):
    """A line of the page."""

    text: str
    indent: float = 0.15
    look: dict[str, Any] | None = None


def examples(table: pd.DataFrame, study: StudyFile) -> Figure:
    """Write the question and right answer of each problem, then the answers of the base model and of the arms."""
    if table.empty:
        return page_of_words("No answers to show.")
    by_problem = table.groupby(["dataset", "problem_id"], sort=False)
    problems = [lines_of(str(problem), rows, study) for (_, problem), rows in by_problem]
    shown = problems[:1]
    for lines in problems[1:]:
        if sum(map(len, [*shown, lines])) * LINE_HEIGHT > MOST_INCHES:
            break
        shown.append(lines)
    notes = [
        Line(text, 0.1, {"color": "#404040"})
        for text in block(note(study, len(problems) - len(shown), kinds_missing(table)))
    ]
    lines = [line for problem in shown for line in problem] + notes
    height = LINE_HEIGHT * (len(lines) + 1) + 0.4
    figure = Figure(figsize=(WIDTH, height))
    style: dict[str, Any] = {"family": MONOSPACED, "fontsize": SIZE, "parse_math": False}
    for number, line in enumerate(lines, start=1):
        y = 1 - (0.4 + LINE_HEIGHT * number) / height
        if line.text:
            figure.text(line.indent / WIDTH, y, line.text, **style, **(line.look or {}))
    return figure


def lines_of(problem_id: str, rows: pd.DataFrame, study: StudyFile) -> list[Line]:
    """Lines of one problem, from its rows of the table."""
    first = rows.iloc[0]
    bold = {"weight": "bold"}
    lines = [Line(f"{name(first['dataset'])}: {name(problem_id)} ({first['chosen']}, {first['mode']})", 0.1, bold)]
    lines += [Line(text) for text in text_of(first["question"])]
    lines += [Line(f"right answer: {name(first['gold'])}")] if pd.notna(first["gold"]) else []
    colours: dict[str, Any] = {"base": BASE_COLOUR, **{arm: look.colour for arm, look in arm_looks(study).items()}}
    for _, row in rows.head(MOST_ARMS + 1).iterrows():
        model = "base model" if row["model"] == "base" else f"{name(row['arm'])}, seed {row['seed']:.0f}"
        lines.append(Line(f"{model}: {verdict(row)}", 0.15, bold | {"color": colours[row["arm"]]}))
        lines += [Line(text, 0.3) for text in text_of(row["completion"])]
    return [*lines, Line("")]


def text_of(text: str) -> list[str]:
    """Lines of a question or completion, cut to `MOST_CHARACTERS`."""
    return block(cut(printable(text), MOST_CHARACTERS))


def block(text: str) -> list[str]:
    """Lines of a printable text. Its line ends become marks, and words that are too long are broken."""
    marked = LINE_END.join(line.rstrip() for line in text.strip("\n").split("\n"))
    return textwrap.wrap(replace_undrawable(marked, MONOSPACED), LINE) or ["(nothing)"]


def name(text: str) -> str:
    """A text in one line, cut to `NAME` characters."""
    words = replace_undrawable(" ".join(printable(text).split()), MONOSPACED)
    return words if len(words) <= NAME else f"{words[: NAME - 1]}…"


def note(study: StudyFile, left_out: int, missing: str) -> str:
    """Say how the problems were chosen, which kinds are `missing`, and what only the report's page shows."""
    more = []
    if left_out:
        more.append("1 more problem" if left_out == 1 else f"{left_out} more problems")
    if len(study.arms) > MOST_ARMS:
        more.append(f"{len(study.arms) - MOST_ARMS} more arms")
    rest = f" The report's page also has {' and '.join(more)}." if more else ""
    return (
        f"Problems of each data set: {RULE}.{missing} Each arm: its first seed. \u21b5 ends a line of the text; \u25a1 "
        f"is a character that the font lacks.{rest}"
    )
