"""Table claims: each claim of a study with the difference of its arms, its test and the verdict."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.claims.verdicts import p_of_ends, verdict
from reward_ablation.analysis.evaluation.answers import (
    Answered,
    answered,
    distribution_of_difference,
    estimate_columns,
    rows_of_parts,
)
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.seed_means import seed_means
from reward_ablation.analysis.evaluation.tables import difference_in_provenance, means_reader
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import COUNT, ESTIMATE, NUMBER, TEXT, columns, joined
from reward_ablation.study.claims import DeclaredClaim
from reward_ablation.study.provenance import quantities

SCHEMAS = {
    # estimate: of the arm minus `against`; p: of the difference being at the nearer end of what is claimed; verdict:
    # supported, contradicted or undecided; declared: UTC; runs_then: runs that had begun by then, null
    # where that is not known.
    "claims": columns(
        (TEXT, "claim says source arm against dataset mode metric direction"),
        (NUMBER, "margin"),
        *ESTIMATE,
        (NUMBER, "p p_holm"),
        (TEXT, "verdict flagged_arms provenance declared"),
        (COUNT, "runs_then"),
    ),
}

#: Most pairs of arm and data set whose answers are held in memory.
ARMS_HELD = 64


def claims_table(study: StudyFile, root: Path, by_run: pd.DataFrame) -> pd.DataFrame:
    """All claims of a study, in its order; Holm's correction is over all of them.

    Differences, intervals and variances are those of `paired_differences`: arms are paired by question, and by
    seed where they have the same seeds. `root` is the study's folder. `by_run` is the table evaluation_by_run, which
    gives the seed means.
    """
    read, metrics = means_reader(study, root), metrics_of_study(study)
    records = read_runs(study, root)
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}

    @lru_cache(maxsize=ARMS_HELD)
    def answers(dataset: str, arm: str) -> dict[str, Answered]:
        return answered(read(dataset, arm), dataset, study.bootstrap, metrics)

    rows = []
    for claim in study.claims:
        own, other = (answers(claim.dataset, arm)[claim.mode] for arm in (claim.arm, claim.against))
        means = seed_means(by_run[by_run["dataset"] == claim.dataset], study)[claim.mode]
        other = for_seeds(other, own.seeds) if claim.against == BASE else other
        runs, runs_against = study.runs_of(claim.arm), study.runs_of(claim.against)
        provenance = difference_in_provenance(runs, runs_against, values) if runs_against else None
        rows.append(claim_row(claim, own, other, means, study.confidence).assign(provenance=provenance))
    table = joined(SCHEMAS["claims"], rows)
    return judged(table, study) if rows else table


def claim_row(
    claim: DeclaredClaim, own: Answered, other: Answered, means: SeedMeans, confidence: float
) -> pd.DataFrame:
    """One claim with its difference and its test, still without Holm's p-value and the verdict.

    `own` has the answers of the claim's arm, and `other` those of the arm that it is compared with. `means` are of all
    arms, in the claim's data set and mode.
    """
    difference, flags = distribution_of_difference(own, other, claim.arm, claim.against, claim.dataset, means)
    row = own.metrics.index(claim.metric)
    written = {"claim": claim.name, **claim.model_dump(exclude={"name"})}
    measured = rows_of_parts([estimate_columns(difference, own.metrics, confidence)]).iloc[[row]]
    tested = {"p": p_of_ends(claim, difference, row), "p_holm": np.nan, "verdict": None, "flagged_arms": flags[row]}
    return measured.assign(**written, **tested)


def for_seeds(base: Answered, seeds: list[int | None]) -> Answered:
    """The base model's answers, repeated for each of an arm's seeds, since the base model has no seed."""
    return base._replace(
        seeds=seeds,
        values=np.repeat(base.values, len(seeds), axis=1),
        by_seed=np.repeat(base.by_seed, len(seeds), axis=2),
    )


def judged(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Claims with Holm's p-values and their verdicts."""
    p_holm = holm(table["p"].to_numpy(dtype=float))
    ends = table[["low", "high"]].to_numpy(dtype=float)
    verdicts = [
        verdict(claim, low, high, p, study.confidence)
        for claim, (low, high), p in zip(study.claims, ends, p_holm, strict=True)
    ]
    return table.assign(p_holm=p_holm, verdict=verdicts)
