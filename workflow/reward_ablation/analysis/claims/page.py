"""Page of the report with a card for each claim."""

from __future__ import annotations

from pathlib import Path
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
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text
from reward_ablation.system.plain_values import printable


def claims_page(claims: pd.DataFrame, study: StudyFile) -> str:
    """The page: text, source, difference, verdict and time of each claim; all free text is escaped."""
    cards = [part for row in claims.itertuples() for part in card(row, study)]
    taken_out = "".join(f"{printable(line)}\n" for line in withdrawn(study))
    return page(f"Claims of {study.name}", verdicts(claims, study), *cards, *([text(taken_out)] if taken_out else []))


def card(row: Any, study: StudyFile) -> list[str]:
    """A heading and a table for one row of the table claims."""
    lines = [
        ("source", printable(known(row.source)) or "not given"),
        ("claimed", claimed_difference(row)),
        ("measured", measured_difference(row, study)),
        ("declared", f"{row.declared}. {since(row)}"),
        ("note", cautions(row, study)),
    ]
    shown = [line for line in lines if line[1]]
    return [section(f"{row.claim}: {row.verdict}"), table(["claim", printable(row.says)], shown)]


def write_claims_page(claims: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the page."""
    with atomic_path(path) as temporary:
        temporary.write_text(claims_page(claims, study), encoding="utf-8")
