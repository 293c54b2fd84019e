"""The first sections of the summary: the primary question with its answer, and the claims with their verdicts."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reward_ablation.analysis.claims_text import (
    cautions,
    claimed_difference,
    known,
    measured_difference,
    since,
    verdicts,
    withdrawn,
)
from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import number
from reward_ablation.study.looks import looks_text
from reward_ablation.study.primary import Primary
from reward_ablation.study.standing import when_sentence
from reward_ablation.summary.cells import compared, numbered, plain, significant
from reward_ablation.system.plain_values import printable


def primary_question(study: StudyFile, table: pd.DataFrame) -> list[str]:
    """Section on the primary question: when it was declared, and the differences that answer it."""
    rows = numbered(table)
    rows = rows[rows["family"] == "primary"]
    if rows.empty:
        return ["## Primary question", "None: the study declares no comparison of two arms."]
    primary = study.primary
    name = name_of(primary.metric)
    result = significant(rows, "arm", study.confidence)
    # The test of equivalence does not hold for several looks, so a sequential study shows its decisions instead.
    margin, more = (None, ["seeds", "decision"]) if is_sequential(study) else (study.equivalence_margin, [])
    return [
        "## Primary question",
        declared_sentence(primary),
        *sequential(study),
        f"{primary.dataset}, {primary.mode}, {name} (table `paired_differences`): {result}",
        compared(study, rows, ["arm", "baseline"], "difference", margin, more),
        *pooled(study, rows),
    ]


def pooled(study: StudyFile, rows: pd.DataFrame) -> list[str]:
    """The primary differences if the seeds of all arms differ alike, as a sentence; nothing where that is not known."""
    limits = metrics_of_study(study).limits(study.primary.metric)
    known = rows[rows["pooled_low"].notna()]
    ends = [[number(float(end), limits) for end in known[f"pooled_{name}"]] for name in ("low", "high")]
    intervals = [
        f"{arm} against {baseline} [{low}, {high}]"
        for arm, baseline, low, high in zip(known["arm"], known["baseline"], *ends, strict=True)
    ]
    if not intervals or is_sequential(study):
        return []
    return [
        f"A check, and not the answer: if the seeds of all arms differed alike, the intervals would be "
        f"{', '.join(intervals)} (columns `pooled_low`, `pooled_high`). They are too short where the seeds of one arm, "
        "above all of the baseline, differ more than those of the others."
    ]


def declared_sentence(primary: Primary) -> str:
    """When the question was declared, as a sentence, and how many others stood before it was put back."""
    if not primary.declared:
        return "Never declared."
    others = len(primary.earlier) - len(primary.replaced)
    between = f" In between, {others} other question{' was' if others == 1 else 's were'} declared." if others else ""
    return when_sentence(primary.runs_then, "Changed" if primary.replaced else "Declared") + between


def is_sequential(study: StudyFile) -> bool:
    """Whether the primary differences are from the looks of a sequential study."""
    return study.sequential is not None and study.sequential.in_force


def sequential(study: StudyFile) -> list[str]:
    """Progress of a sequential study and meaning of its intervals; empty for a study that was never sequential."""
    record = study.sequential
    if record is None:
        return []
    words = looks_text(record, study.primary.contrasts)
    if not record.in_force:
        return [f"**{words[0].upper()}{words[1:]}**, and this is a list of seeds: {', '.join(map(str, study.seeds))}."]
    unfinished = "" if record.next_look is None else " **Not finished:** the next start runs the next look."
    return [
        f"Sequential seeds: {words}.{unfinished}",
        "Each row is from its contrast's last look. The interval is a repeated confidence interval, which holds for "
        "all looks together. Holm p is corrected for looks and contrasts. All other numbers on this page ignore that "
        "the study has looks.",
    ]


def claims(study: StudyFile, table: pd.DataFrame | None) -> list[str]:
    """Section on the claims, with the verdict on each; empty for a study that never made claims."""
    taken_out = [f"- {plain(printable(line))}" for line in withdrawn(study)]
    parts = ["## Claims"] if taken_out or table is not None else []
    if table is not None:
        parts.append(f"{verdicts(table, study)} (table `claims`).")
        parts += [claim_card(row, study) for row in numbered(table).itertuples()]
    return [*parts, *(["\n".join(taken_out)] if taken_out else [])]


def claim_card(row: Any, study: StudyFile) -> str:
    """Markdown list item of one claim: verdict, text, source, claimed and measured difference, cautions."""
    says, source = (plain(printable(known(text))) for text in (row.says, row.source))
    lines = [
        f"- **{row.claim}: {row.verdict}** (row {row.row}). {says}" + (f" (source: {source})" if source else ""),
        f"  - claimed: {claimed_difference(row)}",
        f"  - measured: {measured_difference(row, study)}",
        f"  - {' '.join(filter(None, [since(row), cautions(row, study)]))}",
    ]
    return "\n".join(lines)
