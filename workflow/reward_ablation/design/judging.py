"""A look of a sequential study: decides on the open contrasts with the estimator of the tables."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reward_ablation.analysis.evaluation.answers import (
    Answered,
    answered,
    distribution_of_difference,
)
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.seed_means import seed_means
from reward_ablation.analysis.evaluation.tables import check_answers, means_reader, runs_of_dataset
from reward_ablation.analysis.provenance.tables import check_not_mixed, provenance
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.estimates import intervals, p_values
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.decisions import Plan, corrected, error_left, is_equivalent
from reward_ablation.study.looks import ContrastAtLook, Decision, Look, Sequential
from reward_ablation.study.primary import Contrast, utc_now
from reward_ablation.study.provenance import quantities


class Measured(NamedTuple):
    """Estimate, repeated confidence interval and p-value of a contrast at a look, in the primary metric."""

    estimate: float
    low: float
    high: float
    p: float


def with_next_look(study: StudyFile, root: Path, refuse_mixed: bool) -> Sequential:
    """Take the next look from the answers of all runs, and add it to the record of looks.

    The study has the runs of the look. Its sequential plan is in force and has a look to come. `refuse_mixed` says
    whether runs that differ in code or hardware are refused, as the study's tables refuse them. Raises StudyError if
    the tables would also refuse a run or an answer. The look is then not taken.
    """
    record = study.sequential
    number = None if record is None else record.next_look
    if record is None or number is None:
        raise ValueError("no look to take")
    check_answers(study, root)
    records = read_runs(study, root, ["rollouts.parquet"])
    if refuse_mixed:
        check_not_mixed(provenance(study, {folder: quantities(run.model_dump()) for folder, run in records.items()}))
    plan = Plan(tuple(record.looks), record.stop, record.level)
    contrasts = [contrast for contrast in study.primary.contrasts if record.is_open(contrast)]
    measured = measured_contrasts(study, root, contrasts, plan.confidence(number))
    look = next_look(contrasts, measured, plan, record, is_share(study))
    return record.model_copy(update={"taken": [*record.taken, look]})


def is_share(study: StudyFile) -> bool:
    """Whether the primary metric is a share. Only shares have an equivalence margin."""
    return metrics_of_study(study).limits(study.primary.metric) == SHARE


def measured_contrasts(study: StudyFile, root: Path, contrasts: list[Contrast], confidence: float) -> list[Measured]:
    """Estimates, intervals and p-values of contrasts in the primary metric, as in the table `paired_differences`."""
    primary = study.primary
    study = study.model_copy(update={"datasets": [primary.dataset]})
    read, metrics = means_reader(study, root), metrics_of_study(study)
    means = seed_means(runs_of_dataset(study, primary.dataset, read), study)[primary.mode]

    @lru_cache(maxsize=8)
    def answers(arm: str) -> Answered:
        return answered(read(primary.dataset, arm), primary.dataset, study.bootstrap, metrics)[primary.mode]

    results = []
    for contrast in contrasts:
        own, other = answers(contrast.arm), answers(contrast.against)
        difference, _ = distribution_of_difference(own, other, contrast.arm, contrast.against, primary.dataset, means)
        column = own.metrics.index(primary.metric)
        low, high = intervals(difference, confidence)
        values = (difference.estimate[column], low[column], high[column], p_values(difference)[column])
        results.append(Measured(*map(float, values)))
    return results


def next_look(
    contrasts: list[Contrast], measured: list[Measured], plan: Plan, record: Sequential, has_margin: bool
) -> Look:
    """Make the next look of a record, with a decision on each open contrast.

    `measured` has the estimates of `contrasts`, which are the open ones. `has_margin` says whether the equivalence
    margin applies to the primary metric.
    """
    number = len(record.taken)
    equivalent = sum(contrast.decision == "equivalent" for look in record.taken for contrast in look.contrasts)
    p_holm = corrected(np.array([values.p for values in measured]), number, plan, equivalent)
    margin = record.margin if has_margin else None
    rows = []
    for contrast, values, p in zip(contrasts, measured, p_holm, strict=True):
        decision: Decision = "open" if number + 1 < len(plan.looks) else "undecided"
        if p < plan.level:
            decision = "different"
        elif is_equivalent(values.low, values.high, margin):
            decision = "equivalent"
        rows.append(
            ContrastAtLook(
                **contrast.model_dump(include={"arm", "against"}),
                **values._asdict(),
                p_holm=float(p),
                boundary=plan.boundary(number, len(contrasts) + equivalent),
                decision=decision,
            )
        )
    return Look(seeds=plan.looks[number], date=utc_now(), contrasts=rows, error_left=error_left(plan, number))
