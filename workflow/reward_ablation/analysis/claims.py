"""Table claims: each claim of a study with the difference of its arms, its test and the verdict.

The rule `tables_claims` calls `write`, in studies whose config has claims. The sentences on its rows are in
`claims_text`, because the summary has them too.
"""

from __future__ import annotations

import math
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.claims_text import Verdict, claimed, of_interval, write_claims_page
from reward_ablation.analysis.evaluation.answers import (
    Answered,
    answers_reader,
    distribution_of_difference,
    estimate_columns,
    rows_of_parts,
)
from reward_ablation.analysis.evaluation.question_means import lent_to_declared, seed_means
from reward_ablation.analysis.evaluation.stored_answers import means_reader
from reward_ablation.analysis.provenance import difference_in_provenance
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.estimates import Distribution, holm, p_values
from reward_ablation.analysis.statistics.intervals import level_of
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import BASE, StudyFile, as_its_runs_say
from reward_ablation.analysis.tables import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, columns, joined, write_tables
from reward_ablation.study.claims import Claim, DeclaredClaim
from reward_ablation.study.provenance import quantities

SCHEMAS = {
    # estimate: of the arm minus `against`; p: of the difference being at the nearer end of what is claimed; verdict:
    # supported, contradicted or undecided; declared: UTC; runs_then: runs that had begun by then, null
    # where that is not known; paired: whether the seeds that both arms have are subtracted, or the means of all seeds.
    "claims": columns(
        (TEXT, "claim says source arm against dataset mode metric direction"),
        (NUMBER, "margin"),
        *ESTIMATE,
        (NUMBER, "p p_holm"),
        (FLAG, "paired"),
        (TEXT, "verdict flagged_arms provenance declared"),
        (COUNT, "runs_then"),
    )
}


def write(study: StudyFile, options: Namespace) -> None:
    """Judge the study's claims by the answers of their arms, and write their table and their page of the report."""
    root = options.study.parent
    by_run = read_table(options.output / "evaluation_by_run.parquet")
    study = as_its_runs_say(study, root)
    claims = claims_table(study, root, by_run)
    write_tables([("claims", claims)], SCHEMAS, options.output)
    write_claims_page(claims, study, options.output / "claims.html")


def claims_table(study: StudyFile, root: Path, by_run: pd.DataFrame) -> pd.DataFrame:
    """All claims in the study's order, with Holm's correction over all of them; `by_run` gives the seed means."""
    answers = answers_reader(study, means_reader(study, root))
    records = read_runs(study, root)
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    rows = []
    for claim in study.claims:
        own, other = (answers(claim.dataset, arm)[claim.mode] for arm in (claim.arm, claim.against))
        models = by_run[by_run["dataset"] == claim.dataset]
        if last_look := study.last_look(claim):  # later seeds were run for other contrasts, or for the next look
            seeds = range(last_look[0].seeds)
            own, other = (arm.of_seeds([seed for seed in arm.seeds if seed in seeds]) for arm in (own, other))
            models = models[models["seed"].isin(seeds)]
        means = lent_to_declared(seed_means(models, study)[claim.mode], study, claim.arm, claim.against)
        if claim.against == BASE:  # it has no seed: its answers count for each of the arm's
            other = other.of_seeds([None] * len(own.seeds))._replace(seeds=own.seeds)
        runs, runs_against = study.runs_of(claim.arm), study.runs_of(claim.against)
        provenance = difference_in_provenance(runs, runs_against, values) if runs_against else None  # BASE has no runs
        row = claim_row(claim, own, other, means, study.confidence)
        rows.append(with_last_look(row, claim, study).assign(provenance=provenance))
    table = joined(SCHEMAS["claims"], rows)
    return judged(table, study) if rows else table


def claim_row(
    claim: DeclaredClaim, own: Answered, other: Answered, means: SeedMeans, confidence: float
) -> pd.DataFrame:
    """One claim with its difference and test, still without Holm's p-value and the verdict; `means` are of all arms."""
    difference, flags = distribution_of_difference(own, other, claim.arm, claim.against, claim.dataset, means)
    index = own.metrics.index(claim.metric)
    written = {"claim": claim.name, **claim.model_dump(exclude={"name"})}
    measured = rows_of_parts([estimate_columns(difference, own.metrics, confidence)]).iloc[[index]]
    tested = {"p": p_of_ends(claim, difference, index), "p_holm": np.nan, "verdict": None, "flagged_arms": flags[index]}
    paired = np.broadcast_to(difference.paired, len(own.metrics))[index]
    return measured.assign(**written, **tested, paired=bool(paired))


def with_last_look(row: pd.DataFrame, claim: Claim, study: StudyFile) -> pd.DataFrame:
    """A claim's row; of a contrast with looks, with its repeated interval and a p-value that holds for all looks."""
    # A look tests whether there is a difference: its p-value is also corrected for the contrasts. A claim with a
    # margin has its own test, corrected by Bonferroni for the planned looks, which holds for every rule of stopping.
    last_look = study.last_look(claim)
    if last_look is None or study.sequential is None:
        return row
    at_look = last_look[1]
    over_looks = np.minimum(1.0, row["p"] * len(study.sequential.looks))
    measured = {name: getattr(at_look, name) for name in ("estimate", "low", "high", "seeds")}
    return row.assign(**measured, p=over_looks if claim.margin else at_look.p_holm)


def judged(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Claims with Holm's p-values and their verdicts."""
    p_holm = holm(table["p"].to_numpy(dtype=float))
    ends = table[["low", "high"]].to_numpy(dtype=float)
    verdicts = [
        verdict(claim, low, high, p, study.confidence)
        for claim, (low, high), p in zip(study.claims, ends, p_holm, strict=True)
    ]
    return table.assign(p_holm=p_holm, verdict=verdicts)


def verdict(claim: Claim, low: float, high: float, p_holm: float, confidence: float) -> Verdict:
    """Decided where the interval lies wholly in or out of what is claimed, and Holm's p-value is below the level."""
    return of_interval(claim, low, high) if p_holm < level_of(confidence) else "undecided"


def p_of_ends(claim: Claim, difference: Distribution, metric: int) -> float:
    """One minus the confidence at which the interval of a `metric` (its index) just reaches the nearer claimed end."""
    # Between two ends it is twice the p-value of two one-sided tests (Schuirmann 1987), as the interval at the full
    # confidence must lie inside.
    return max(float(p_values(difference, end)[metric]) for end in claimed(claim) if math.isfinite(end))
