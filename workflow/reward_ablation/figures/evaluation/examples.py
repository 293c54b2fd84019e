"""Page: answers before and after training, as text."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from reward_ablation.analysis.evaluation.example_text import RULE, cut, printable, verdict
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.elements.style import BASE_COLOUR, WIDTH, drawable, looks, page_of_words

MONOSPACED = "DejaVu Sans Mono"

#: Stands for the end of a line within a text.
LINE_END = "\u21b5 "

#: Characters of a completion and of a question, and of a line at this size.
MOST_CHARACTERS, LINE, SIZE = 310, 118, 6.5

#: Inches of a line, and of all problems together: more are on the report's page.
LINE_HEIGHT, MOST_INCHES = 0.125, 11.0

#: Arms that are shown of each problem.
MOST_ARMS = 12

#: Characters of an arm's name, a problem's id or an answer.
NAME = 40


class Line(NamedTuple):
    """A line of the page."""

    text: str
    indent: float = 0.15
    look: dict[str, Any] | None = None


def examples(table: pd.DataFrame, study: StudyFile) -> Figure:
    """Each problem's question and right answer, and below them the answers of the base model and of the arms."""
    if table.empty:
        return page_of_words("No answers to show.")
    by_problem = table.groupby(["dataset", "problem_id"], sort=False)
    problems = [lines_of(str(problem), rows, study) for (_, problem), rows in by_problem]
    shown = problems[:1]
    for lines in problems[1:]:
        if sum(map(len, [*shown, lines])) * LINE_HEIGHT > MOST_INCHES:
            break
        shown.append(lines)
    notes = [Line(text, 0.1, {"color": "#404040"}) for text in block(note(study, len(problems) - len(shown)))]
    lines = [line for problem in shown for line in problem] + notes
    height = LINE_HEIGHT * (len(lines) + 1) + 0.4
    figure = Figure(figsize=(WIDTH, height))
    style: dict[str, Any] = {"family": MONOSPACED, "fontsize": SIZE, "parse_math": False}
    for place, line in enumerate(lines):
        y = 1 - (0.4 + LINE_HEIGHT * (place + 1)) / height
        if line.text:
            figure.text(line.indent / WIDTH, y, line.text, **style, **(line.look or {}))
    return figure


def lines_of(problem_id: str, rows: pd.DataFrame, study: StudyFile) -> list[Line]:
    """The lines of one problem."""
    first = rows.iloc[0]
    bold = {"weight": "bold"}
    lines = [Line(f"{name(first['dataset'])}: {name(problem_id)} ({first['chosen']}, {first['mode']})", 0.1, bold)]
    lines += [Line(text) for text in text_of(first["question"])]
    lines += [Line(f"right answer: {name(first['gold'])}")] if pd.notna(first["gold"]) else []
    colours: dict[str, Any] = {"base": BASE_COLOUR, **{arm: look.colour for arm, look in looks(study).items()}}
    for _, row in rows.head(MOST_ARMS + 1).iterrows():
        who = "base model" if row["model"] == "base" else f"{name(row['arm'])}, seed {row['seed']:.0f}"
        lines.append(Line(f"{who}: {verdict(row)}", 0.15, bold | {"color": colours[row["arm"]]}))
        lines += [Line(text, 0.3) for text in text_of(row["completion"])]
    return [*lines, Line("")]


def text_of(text: str) -> list[str]:
    """A model's text as lines, cut."""
    return block(cut(printable(text), MOST_CHARACTERS))


def block(text: str) -> list[str]:
    """A printable text in lines; its line ends become marks, and words that are too long are broken."""
    marked = LINE_END.join(line.rstrip() for line in text.strip("\n").split("\n"))
    return textwrap.wrap(drawable(marked, MONOSPACED), LINE) or ["(nothing)"]


def name(text: str) -> str:
    """A short text in one line."""
    words = drawable(" ".join(printable(text).split()), MONOSPACED)
    return words if len(words) <= NAME else f"{words[: NAME - 1]}…"


def note(study: StudyFile, left_out: int) -> str:
    """Say how the problems were chosen and what is left out."""
    more = []
    if left_out:
        more.append("1 more problem" if left_out == 1 else f"{left_out} more problems")
    if len(study.arms) > MOST_ARMS:
        more.append(f"{len(study.arms) - MOST_ARMS} more arms")
    rest = f" On the report's page: {' and '.join(more)}." if more else ""
    return (
        f"Of each data set: {RULE}. Of each arm the first seed. \u21b5 ends a line of the text; \u25a1 is a character "
        f"that the font lacks.{rest}"
    )
