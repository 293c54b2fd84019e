"""Claims in words, for the summary, and their page of the report.

`claims.write` makes the page, and the summary of the report takes the same sentences. The verdicts themselves are made
in `claims`, by `of_interval` and the test.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from markupsafe import Markup

from reward_ablation.analysis.evaluation.metrics import metrics_of_study, name_of
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.words import counted, p_value, with_interval
from reward_ablation.study.standing import when_sentence
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import page, section, table, text
from reward_ablation.system.plain_values import printable

Verdict = Literal["supported", "contradicted", "undecided"]


def claimed(claim: Any) -> tuple[float, float]:
    """Ends of the open interval that the difference is claimed to lie in; infinite where no end is claimed."""
    match claim.direction:
        case "higher":
            return claim.margin, math.inf
        case "lower":
            return -math.inf, -claim.margin
    return -claim.margin, claim.margin


def of_interval(claim: Any, low: float, high: float) -> Verdict:
    """What an interval alone says of a claim (or its row): decided where it lies wholly inside or outside `claimed`."""
    claimed_low, claimed_high = claimed(claim)
    if claimed_low < low and high < claimed_high:
        return "supported"
    return "contradicted" if high < claimed_low or claimed_high < low else "undecided"


def verdicts(claims: pd.DataFrame, study: StudyFile) -> str:
    """How many claims are supported, contradicted and undecided, and by which test."""
    kinds = ("supported", "contradicted", "undecided")
    counts = ", ".join(f"{(claims['verdict'] == kind).sum()} {kind}" for kind in kinds)
    level = level_of(study.confidence)
    return f"{counted(len(claims), 'claim')}: {counts}; Holm p over all claims must be below {level:g}"


def claimed_difference(row: Any) -> str:
    """What is claimed of which difference: `format on gsm8k_test (greedy), gdpo minus sum: above 0.02`."""
    margin = f"{row.margin:g}"
    below = margin if not row.margin else f"−{margin}"
    region = {"higher": f"above {margin}", "lower": f"below {below}", "same": f"within ±{margin}"}[row.direction]
    return f"{name_of(row.metric)} on {row.dataset} ({row.mode}), {row.arm} minus {row.against}: {region}"


def measured_difference(row: Any, study: StudyFile) -> str:
    """The estimate with its interval, Holm's p-value, and the numbers of seeds and questions."""
    limits = metrics_of_study(study).limits(row.metric)
    over = f"{seeds_of_difference(row, study)}, {counted(row.questions, 'question')}"
    return f"{with_interval(row._asdict(), limits)}, Holm p {p_value(row.p_holm, level_of(study.confidence))} ({over})"


def seeds_of_difference(row: Any, study: StudyFile) -> str:
    """The seeds of a claim's difference: those that both arms have, where they are paired, or those of each arm."""
    own, other = ({run.seed for run in study.runs_of(arm)} for arm in (row.arm, row.against))
    if own == other or min(len(own), len(other)) < 2 or study.last_look(row) is not None:
        return counted(row.seeds, "seed")
    return f"{row.seeds} shared seeds" if row.paired else f"{len(own)} seeds against {len(other)}"


def since(row: Any) -> str:
    """Whether a claim was declared before the first run; if not, what this means."""
    return when_sentence(None if pd.isna(row.runs_then) else int(row.runs_then))


def known(value: Any) -> str:
    """A text of a table; empty where it is null."""
    return "" if pd.isna(value) else str(value)


def cautions(row: Any, study: StudyFile) -> str:
    """Cautions about a verdict: corrections, looks, differing provenance, arms whose seeds differ much."""
    provenance, flagged = known(row.provenance), known(row.flagged_arms)
    words = []
    if row.p < level_of(study.confidence) <= row.p_holm and of_interval(row, row.low, row.high) != "undecided":
        words.append("The interval alone decides it, but not after the correction for the number of claims.")
    if study.is_sequential and study.last_look(row) is None:
        words.append("Looks at other differences decided the number of seeds, and this test is not corrected for them.")
    if provenance not in ("", "same"):
        words.append(f"The training of the two {provenance}.")
    if flagged:
        words.append(f"Seeds of {flagged} differ more than those of other arms.")
    return " ".join(words)


def withdrawn(study: StudyFile) -> list[str]:
    """A sentence for each claim that was taken out of the config after runs had begun, and one on lost claims."""
    lines = [
        f"Taken out after there were runs: {claim.name}, declared {claim.declared}: {claim.says}"
        for claim in study.withdrawn_claims
    ]
    lost = counted(study.lost_claims, "claim")
    return lines + ([f"Lost with an earlier study.json: {lost}, declared when runs began"] if study.lost_claims else [])


def write_claims_page(claims: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the page: text, source, difference, verdict and time of each claim; all free text is escaped."""
    cards = [part for row in claims.itertuples() for part in card(row, study)]
    taken_out = "".join(f"{printable(line)}\n" for line in withdrawn(study))
    parts = [*cards, *([text(taken_out)] if taken_out else [])]
    with atomic_path(path) as temporary:
        temporary.write_text(page(f"Claims of {study.name}", verdicts(claims, study), *parts), encoding="utf-8")


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
