"""Main table for a paper: one row per arm, as Markdown and as LaTeX.

The command of the report (rule `summary`) writes it as `main.md`, `main.tex` and a page.

Results are from the tables `evaluation_by_arm` and `paired_differences`, for the primary data set and mode; in a study
without evaluation from `rewards_by_step`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of, panels
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.statistics.limits import UNLIMITED
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.training_rewards import end_of_training
from reward_ablation.analysis.words import counted, number, p_value, with_interval
from reward_ablation.report.summary import known_interval, markdown, over_words, plain
from reward_ablation.system.plain_values import printable

#: Marks of a number of a flagged arm (its seeds differ unusually), and of a p-value outside the declared comparisons.
FLAGGED, EXPLORATORY = "†", "‡"

#: Characters that LaTeX takes as commands or sets as other characters, with their LaTeX code.
LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "±": r"$\pm$",
    "–": r"\textendash{}",
    "\u00a0": "~",
    FLAGGED: r"\textsuperscript{\dag}",
    EXPLORATORY: r"\textsuperscript{\ddag}",
}

#: Places between two characters that LaTeX would set as one, such as `--` and `''`.
LIGATURE = r"(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)|(?<=[`?!])(?=`)"


class MainTable(NamedTuple):
    """Caption, names of the columns, and cells of each row, as plain text."""

    caption: str
    columns: list[str]
    rows: list[list[str]]


def main_table(study: StudyFile, evaluation: pd.DataFrame, differences: pd.DataFrame) -> MainTable:
    """The main table: a row for the base model and for each arm, with metrics, difference to the baseline, Holm's p."""
    metrics = list(dict.fromkeys([study.primary.metric, *panels(study)]))
    of_arm = {(row["arm"], row["metric"]): row for row in _primary_rows(study, evaluation)}
    against = {
        row["arm"]: row
        for row in _primary_rows(study, differences)
        if row["metric"] == study.primary.metric and row["baseline"] == study.baseline
    }
    rows = []
    for arm in [*([None] if study.has_base else []), *study.arms]:
        name = arm.name if arm else "base"
        weights = study.weights_text(arm) if arm else ["–"] * len(study.components)
        seeds = str(len(study.runs_of(name))) if arm else "–"
        values = [interval(study, of_arm.get((name, metric)), metric) for metric in metrics]
        rows.append([name, *weights, seeds, *values, *difference(study, against.get(name))])
    columns = ["arm", *study.components, "seeds", *map(name_of, metrics)]
    return MainTable(caption(study, of_arm, against), [*columns, f"difference to {study.baseline}", "Holm p"], rows)


def table_of_training(study: StudyFile, rewards_by_step: pd.DataFrame) -> MainTable:
    """The main table of a study without evaluation: mean scores at the end of training, and differences' intervals."""
    ends = end_of_training(study, rewards_by_step)
    rows = []
    for arm in study.arms:
        cells = dict.fromkeys(study.components, "–")
        for end in (end for end in ends if end.arm == arm.name):
            bracket = "" if arm.name == study.baseline else known_interval(end.difference, end.low, end.high)[1]
            cells[end.component] = f"{number(end.mean, UNLIMITED)} {bracket}".rstrip()
        weights = [f"{arm.weights[name]:g}" for name in study.components]
        rows.append([arm.name, *weights, str(len(study.runs_of(arm.name))), *cells.values()])
    words = (
        f"Study {study.name}: {printable(study.model)}, trained on {printable(study.training_data)}. Nothing was "
        "evaluated. Weights, then mean scores over the last tenth of the training steps and over seeds. Brackets: "
        f"{100 * study.confidence:g} % interval over seeds of the difference to {study.baseline}, paired by seed, "
        "uncorrected."
    )
    names = [f"{name} (end of training)" for name in study.components]
    return MainTable(words, ["arm", *study.components, "seeds", *names], rows)


def _primary_rows(study: StudyFile, table: pd.DataFrame) -> Iterator[pd.Series]:
    """Rows of the primary data set and mode."""
    primary = study.primary
    for _, row in table[(table["dataset"] == primary.dataset) & (table["mode"] == primary.mode)].iterrows():
        yield row


def interval(study: StudyFile, row: pd.Series | None, metric: str) -> str:
    """An estimate with its interval, such as `0.250 [0.200, 0.300]`, and a dagger if an arm of the row is flagged."""
    if row is None:
        return "–"
    flag = FLAGGED if pd.notna(row["flagged_arms"]) else ""
    return with_interval(row, metrics_of_study(study).limits(metric)) + flag


def difference(study: StudyFile, row: pd.Series | None) -> list[str]:
    """Cells of an arm's difference to the baseline with its interval, and of Holm's p-value."""
    if row is None:
        return ["–", "–"]
    exploratory = EXPLORATORY if row["family"] != "primary" else ""
    return [
        interval(study, row, study.primary.metric),
        p_value(row["p_holm"], level_of(study.confidence)) + exploratory,
    ]


def caption(study: StudyFile, of_arm: dict[tuple[str, str], pd.Series], against: dict[str, pd.Series]) -> str:
    """Caption of the table: what it shows, and what its intervals are over."""
    primary, (fewest_seeds, most_seeds) = study.primary, study.seed_counts
    declared = any(row["family"] == "primary" for row in against.values())
    shown = [*of_arm.values(), *against.values()]
    questions = counted(max((int(row["questions"]) for row in of_arm.values()), default=0), "question")
    others = [str(contrast) for contrast in primary.contrasts if contrast.against != study.baseline]
    words = [
        f"Study {study.name}: {printable(study.model)}, trained {'' if study.imported else 'with GRPO '}"
        f"on {printable(study.training_data)}.",
        f"Columns {', '.join(study.components)}: weight in the reward; –: not scored."
        + " base: the model before training." * study.has_base,
        study.primary_not_shown or f"Metrics are on {primary.dataset} ({primary.mode}, {questions}).",
        f"Brackets: {100 * study.confidence:g} % intervals over {over_words(study)}; uncorrected.",
        f"Differences in {name_of(primary.metric)} are {study.pairing}.",
        f"Holm p: corrected over {study.primary_family}." * declared,
        "Runs are missing: they diverged or are not finished." * study.is_partial,
        "Declared contrasts: repeated confidence intervals of each contrast's last look." * study.has_looks,
        f"Declared comparisons with other arms are in the table paired_differences: {', '.join(others)}."
        * bool(others),
        "Some arms have one seed: their intervals, and of differences to arms with this seed, are over questions only."
        * (fewest_seeds == 1 < most_seeds),
        f"{FLAGGED}: the seeds of an arm differ more than those of the other arms."
        * any(pd.notna(row["flagged_arms"]) for row in shown),
        f"{EXPLORATORY}: exploratory, not a declared comparison; corrected over the arms with this reference."
        * any(row["family"] != "primary" for row in against.values()),
    ]
    return " ".join(word for word in words if word)


def as_markdown(table: MainTable) -> str:
    """The table with its caption below, as Markdown."""
    return f"{markdown(table.columns, table.rows)}\n\n{plain(table.caption)}\n"


def as_latex(table: MainTable) -> str:
    """The table as LaTeX, for a document with the packages booktabs and fontenc (T1)."""
    head, *rows = ([latex(cell) for cell in line] for line in (table.columns, *table.rows))
    tabular = pd.DataFrame(rows, columns=head).to_latex(index=False, column_format="l" + "r" * (len(head) - 1))
    return (
        "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs}.\n"
        f"\\begin{{table}}\n\\centering\\small\n\\caption{{{latex(table.caption)}}}\n\\label{{tab:main}}\n"
        f"{tabular}\\end{{table}}\n"
    )


def latex(words: str) -> str:
    """Escape a text for LaTeX, in one line; a character neither in ASCII nor in `LATEX` becomes a question mark."""
    escaped = "".join(LATEX.get(character, character if character.isascii() else "?") for character in printable(words))
    return re.sub(LIGATURE, "{}", escaped)
