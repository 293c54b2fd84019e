"""`python -m reward_ablation.analysis.claims ...`: write the table of claims, and the page with a card for each."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pandas as pd
from markupsafe import Markup

from reward_ablation.analysis.claims.tables import SCHEMAS, claims_table
from reward_ablation.analysis.claims.words import (
    cautions,
    claimed_difference,
    known,
    measured_difference,
    since,
    verdicts,
    withdrawn,
)
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile, as_its_runs_say
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text
from reward_ablation.system.plain_values import printable


@table_command("analysis.claims")
def main(study: StudyFile, options: Namespace) -> None:
    """Judge the study's claims by the answers of their arms, and write their table and their page of the report."""
    by_run = read_table(options.output / "evaluation_by_run.parquet")
    study = as_its_runs_say(study, options.study.parent)
    claims = claims_table(study, options.study.parent, by_run)
    write_tables({"claims": claims}, SCHEMAS, options.output)
    with atomic_path(options.output / "claims.html") as temporary:
        temporary.write_text(claims_page(claims, study), encoding="utf-8")


def claims_page(claims: pd.DataFrame, study: StudyFile) -> str:
    """The page: text, source, difference, verdict and time of each claim."""
    cards = [part for row in claims.itertuples() for part in card(row, study)]
    taken_out = "".join(f"{printable(line)}\n" for line in withdrawn(study))
    return page(f"Claims of {study.name}", verdicts(claims, study), *cards, *([text(taken_out)] if taken_out else []))


def card(row: Any, study: StudyFile) -> list[Markup]:
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


if __name__ == "__main__":
    with one_line_errors():
        main()
