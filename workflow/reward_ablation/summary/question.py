"""What the study was declared to find out, and what it claims: the first sections of the summary."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reward_ablation.analysis.claims.words import (
    cautions,
    claimed_difference,
    known,
    measured_difference,
    since,
    verdicts,
    withdrawn,
)
from reward_ablation.analysis.evaluation.metrics import name_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import counted
from reward_ablation.study.looks import looks_text
from reward_ablation.summary.cells import compared, numbered, plain, significant
from reward_ablation.system.plain_values import printable


def primary_question(study: StudyFile, table: pd.DataFrame) -> list[str]:
    """What the study was declared to find out, and the answer."""
    rows = numbered(table)
    rows = rows[rows["family"] == "primary"]
    if rows.empty:
        return ["## Primary question", "None: the study declares no comparison of two arms."]
    primary = study.primary
    name = name_of(primary.metric)
    told = significant(rows, "arm", study.confidence)
    runs = counted(primary.runs_then, "run")
    late = f"when {runs} had been trained: what these runs may have suggested, they cannot confirm"
    when = late if primary.runs_then else "before the first run"
    # A sequential study has its decisions in place of the test of equivalence, which does not hold for several looks.
    margin, more = (None, ["seeds", "decision"]) if is_sequential(study) else (study.equivalence_margin, [])
    return [
        "## Primary question",
        f"{'Changed' if primary.earlier else 'Declared'} {when}." if primary.declared else "Never declared.",
        *sequential(study),
        f"{primary.dataset}, {primary.mode}, {name} (table `paired_differences`): {told}",
        compared(study, rows, ["arm", "baseline"], "difference", margin, more),
    ]


def is_sequential(study: StudyFile) -> bool:
    """Whether the primary differences are those of looks."""
    return study.sequential is not None and study.sequential.in_force


def sequential(study: StudyFile) -> list[str]:
    """Where a sequential study is, and what its intervals are; nothing in a study that was never sequential."""
    record = study.sequential
    if record is None:
        return []
    words = looks_text(record, study.primary.contrasts)
    if not record.in_force:
        return [f"**{words[0].upper()}{words[1:]}**, and this is a list of seeds: {', '.join(map(str, study.seeds))}."]
    still = "" if record.next_look is None else " **Not finished:** the next start runs the next look."
    return [
        f"Sequential seeds: {words}.{still}",
        "Each row is of its contrast's last look. Its interval holds for all looks together (a repeated confidence "
        "interval), and Holm p is corrected for looks and contrasts. All other numbers take the seeds as they are.",
    ]


def claims(study: StudyFile, table: pd.DataFrame | None) -> list[str]:
    """A card for each claim: its text, source, difference, and verdict; nothing in a study that never made claims."""
    taken_out = [f"- {plain(printable(line))}" for line in withdrawn(study)]
    parts = ["## Claims"] if taken_out or table is not None else []
    if table is not None:
        parts.append(f"{verdicts(table, study)} (table `claims`).")
        parts += [claim_card(row, study) for row in numbered(table).itertuples()]
    return [*parts, *(["\n".join(taken_out)] if taken_out else [])]


def claim_card(row: Any, study: StudyFile) -> str:
    """One claim in Markdown."""
    says, source = (plain(printable(known(text))) for text in (row.says, row.source))
    lines = [
        f"- **{row.claim}: {row.verdict}** (row {row.row}). {says}" + (f" (source: {source})" if source else ""),
        f"  - claimed: {claimed_difference(row)}",
        f"  - measured: {measured_difference(row, study)}",
        f"  - {' '.join(filter(None, [since(row.runs_then), cautions(row, study)]))}",
    ]
    return "\n".join(lines)
