"""Answers before and after training, side by side, to problems that are chosen by a rule: the table and its page.

The rule `tables_evaluation` makes both. A model's output is hostile: characters that act instead of showing are
escaped, by `visible`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.evaluation.stored_answers import read_answers
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import BASE, StudyFile
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text

#: Problems at the start of a data set that are shown, whatever the answers to them: few, as a page is read to its end.
FIRST = 2

#: The rule in words, for the page, and what it adds if there is a base model.
RULE = f"the first {FIRST} problems of the data set"
BESIDE_BASE = (
    "; of the others, the first that the baseline arm answers better than the base model (gained), and the first that "
    "it answers worse (lost)"
)

#: Unicode's categories that `visible` escapes: control, format, private use, surrogate, unassigned; line and paragraph
#: separators.
UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}

#: Columns of the answers that are shown, and further columns in mathematics: strict is right in the asked format,
#: lenient right in any.
SHOWN = ["completion", "tokens", "truncated"]
OF_MATHEMATICS = ["answer", "correct_strict", "correct_lenient", "format"]

#: Columns of texts that repeat, which are read as categories.
CODED = ["mode", "problem_id"]

#: Characters of a completion or question, and of an answer, on the page; the table has all of them.
PAGE_CHARACTERS, ANSWER_CHARACTERS = 2000, 100


def examples(study: StudyFile, root: Path) -> list[pd.DataFrame]:
    """Rows of table examples: greedy answers, or first samples, of the base model and of each arm's first seed."""
    rows = []
    for dataset in study.datasets:
        problems = read_parquet(root / study.questions[dataset], ["id", "question", "answer"]).set_index("id")
        first = {arm: study.runs_of(arm)[0] for arm in study.arm_names}
        baseline = _answers(study, root, dataset, first[study.baseline].name)
        # Without a base model no problem is gained or lost.
        base = _answers(study, root, dataset, BASE) if study.has_base else baseline
        answered = [problem for problem in problems.index if problem in base.index]
        reasons = choose(answered, judgement(study, base), judgement(study, baseline))
        shown: list[tuple[str, int | None, pd.DataFrame]] = [(BASE, None, base)] if study.has_base else []
        shown += [(arm, run.seed, _answers(study, root, dataset, run.name, reasons)) for arm, run in first.items()]
        for problem_id, reason in reasons.items():
            problem = problems.loc[problem_id]
            common: dict[str, Any] = {"dataset": dataset, "problem_id": problem_id, "chosen": reason}
            common |= {"question": problem["question"], "gold": problem["answer"], **dict.fromkeys(OF_MATHEMATICS)}
            for arm, seed, answers in shown:
                answer = {str(name): value for name, value in answers.loc[problem_id].items()}
                row = common | {name: value for name, value in answer.items() if name not in study.metrics}
                rows.append(row | {"arm": arm, "seed": seed, "scores": scores_text(study, answer)})
    return [pd.DataFrame(rows).astype({"seed": "Int64"})] if rows else []


def judgement(study: StudyFile, answers: pd.DataFrame) -> pd.Series:
    """How good each answer is, more being better: its score by the main metric if this is an own one, else 1 or 0."""
    metric = study.metrics.get(study.main_metric)
    if metric is None:
        return answers["correct_strict"].astype(float)
    return answers[study.main_metric] * (1 if metric.higher_is_better else -1)


def scores_text(study: StudyFile, answer: dict[str, Any]) -> str | None:
    """Scores of an answer by the study's own metrics in words; None without such metrics."""
    return ", ".join(f"{name_of(name)} {answer[name]:.4g}" for name in study.metrics) or None


def choose(problem_ids: list[str], base: pd.Series, baseline: pd.Series) -> dict[str, str]:
    """Problems that are shown, in the data set's order, each with the reason: `first`, `gained` or `lost`."""
    first, others = problem_ids[:FIRST], problem_ids[FIRST:]
    gained = [name for name in others if baseline[name] > base[name]][:1]
    lost = [name for name in others if base[name] > baseline[name]][:1]
    reasons = dict.fromkeys(first, "first") | dict.fromkeys(gained, "gained") | dict.fromkeys(lost, "lost")
    return {name: reasons[name] for name in problem_ids if name in reasons}


def _answers(
    study: StudyFile, root: Path, dataset: str, model: str, problem_ids: Collection[str] | None = None
) -> pd.DataFrame:
    """One answer to each problem, or to each of `problem_ids`, by problem: the greedy one, or the first sample."""
    columns = [*SHOWN, *(OF_MATHEMATICS if study.mathematics else []), *study.metrics]
    answers = read_answers(study, root, dataset, model, ["mode", "problem_id", "sample", *columns], CODED)
    greedy = answers["mode"] == "greedy"
    answers = answers[greedy] if greedy.any() else answers[answers["sample"] == 0]
    shown = answers if problem_ids is None else answers[answers["problem_id"].isin(problem_ids)]
    return shown.set_index("problem_id").drop(columns="sample")


#: A model's text must not change the direction of the text around it.
STYLE = Markup("<style>pre { margin: 0; max-width: 60em; unicode-bidi: isolate; direction: ltr }</style>")


def write_examples_page(rows: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table as HTML, for the report: a section a problem."""
    sections = [
        _section(str(problem_id), of_problem)
        for (_, problem_id), of_problem in rows.groupby(["dataset", "problem_id"], sort=False)
    ]
    of_base, beside = ("the base model and of ", BESIDE_BASE) if study.has_base else ("", "")
    words = page(
        f"Examples of {study.name}",
        f"Answers of {of_base}each arm's first seed. Shown are {RULE}{beside}.{kinds_missing(rows) if beside else ''} "
        "Invisible characters are written as escapes, such as \\u202e",
        STYLE,
        *sections,
    )
    with atomic_path(path) as temporary:
        temporary.write_text(words, encoding="utf-8")


def _section(problem_id: str, rows: pd.DataFrame) -> Markup:
    first = rows.iloc[0]
    head = f"{first['dataset']}: {problem_id} ({first['chosen']}, {first['mode']})"
    parts = [section(visible(head)), text(visible(cut(first["question"], PAGE_CHARACTERS)))]
    if pd.notna(first["gold"]):
        parts.append(Markup("<p>Right answer: <bdi>{}</bdi></p>").format(visible(first["gold"])))
    cells = []
    for _, row in rows.iterrows():
        answer = "none found" if pd.isna(row["answer"]) else cut(row["answer"], ANSWER_CHARACTERS)
        completion = "not kept" if pd.isna(row["completion"]) else cut(row["completion"], PAGE_CHARACTERS)
        cells.append([row["arm"], text(visible(answer)), verdict(row), text(visible(completion))])
    return Markup("\n").join([*parts, table(["arm", "answer", "graded", "completion"], cells)])


def kinds_missing(table: pd.DataFrame) -> str:
    """A sentence on the kinds of problems that the table `examples` lacks; empty if it has all."""
    lines = []
    for dataset, rows in table.groupby("dataset", sort=False):
        if missing := [kind for kind in ("gained", "lost") if kind not in set(rows["chosen"])]:
            lines.append(f"{dataset} has no further problem that the baseline arm {' or '.join(missing)}")
    return f" {'; '.join(lines)}." if lines else ""


def visible(text: str) -> str:
    """The text with characters of `UNSEEN` as escapes, since these act instead of showing.

    Line breaks stay, and a tab becomes four blanks. Format characters include those that turn the direction of text, or
    have no width.

    >>> visible("a" + chr(0x202E) + "b" + chr(27) + "[0m")
    'a\\\\u202eb\\\\x1b[0m'
    """
    return "".join(
        character if character == "\n" or unicodedata.category(character) not in UNSEEN else _escape(character)
        for character in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cut(text: str, most: int) -> str:
    """The beginning of a text, and how many characters are left out.

    >>> cut("a sentence", 4)
    'a se… (6 more characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def verdict(row: pd.Series) -> str:
    """What the graders said of an answer, in words."""
    judged = [] if pd.isna(row.get("scores")) else [row["scores"]]
    if pd.notna(row["correct_strict"]):
        lenient = "right, but not in the format" if row["correct_lenient"] else "wrong"
        judged.insert(0, "right" if row["correct_strict"] else lenient)
    if pd.notna(row["tokens"]):
        judged.append("1 token" if row["tokens"] == 1 else f"{row['tokens']:.0f} tokens")
    if pd.notna(row["truncated"]) and row["truncated"]:
        judged.append("cut off by the limit")
    return ", ".join(judged)
