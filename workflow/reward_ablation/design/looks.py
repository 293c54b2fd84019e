"""Looks of a sequential study: each decides on the open contrasts with the estimator of the tables.

The contrasts are group-sequential tests with Holm's correction (Maurer and Bretz, "Multiple testing in group sequential
trials using graphical approaches", Statistics in Biopharmaceutical Research 2013; Ye, Li, Liu and Yao, "A
group-sequential Holm procedure with multiple primary endpoints", Statistics in Medicine 2013). A contrast that is found
to be different leaves its part of the error to the open contrasts, from this look on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from reward_ablation.analysis.evaluation.answers import answers_reader, distribution_of_difference
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import seed_means
from reward_ablation.analysis.evaluation.stored_answers import check_answers, means_reader
from reward_ablation.analysis.evaluation.tables import runs_of_dataset
from reward_ablation.analysis.provenance import check_not_mixed, provenance
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.estimates import holm, intervals, p_values
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.seeds import Spending
from reward_ablation.design.group_sequential import SPENDING, boundaries, information_fractions, level_reached
from reward_ablation.study.looks import ContrastAtLook, Decision, Look, Sequential
from reward_ablation.study.primary import Contrast, utc_now
from reward_ablation.study.provenance import quantities


class Plan(NamedTuple):
    """Looks and error of a sequential study."""

    looks: tuple[int, ...]  # number of seeds at each look, ascending
    stop: Spending
    level: float  # probability that any look calls a contrast different that does not differ

    @property
    def fractions(self) -> tuple[float, ...]:
        """Information fractions of the looks."""
        return information_fractions(self.looks)

    def boundary(self, look: int, undecided: int) -> float:
        """The p-value at or below which the first of `undecided` contrasts is called different."""
        return boundaries(round(self.level / undecided, 9), self.fractions, self.stop)[look]

    def confidence(self, look: int) -> float:
        """Confidence of the interval at a look, such that the intervals of all looks together have 1 - `level`.

        These are repeated confidence intervals (Jennison and Turnbull 2000, chapter 9), which hold whenever and for
        whatever reason a study stops. As in the tables, they are not corrected for the number of contrasts.
        """
        return 1 - boundaries(self.level, self.fractions, self.stop)[look]

    def error_left(self, look: int) -> float:
        """Error that the looks after `look` may still spend on a contrast that has the whole level."""
        return self.level - SPENDING[self.stop](self.level, self.fractions[look])


class Measured(NamedTuple):
    """Estimate, repeated confidence interval and p-value of a contrast at a look, in the primary metric."""

    estimate: float
    low: float
    high: float
    p: float


def with_next_look(study: StudyFile, root: Path, refuse_mixed: bool) -> Sequential:
    """Take the next look from the answers of all runs, and add it to the record of looks.

    The study has the runs of the look. Its sequential plan is in force and has a look to come. Raises StudyError if
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
    # Only shares have an equivalence margin.
    is_share = metrics_of_study(study).limits(study.primary.metric) == SHARE
    look = next_look(contrasts, measured, plan, record, is_share)
    return record.model_copy(update={"taken": [*record.taken, look]})


def measured_contrasts(study: StudyFile, root: Path, contrasts: list[Contrast], confidence: float) -> list[Measured]:
    """Estimates, intervals and p-values of contrasts in the primary metric, as in the table `paired_differences`."""
    primary = study.primary
    study = study.model_copy(update={"datasets": [primary.dataset]})
    read = means_reader(study, root)
    answers = answers_reader(study, read)
    means = seed_means(runs_of_dataset(study, primary.dataset, read), study)[primary.mode]

    results = []
    for contrast in contrasts:
        own, other = (answers(primary.dataset, arm)[primary.mode] for arm in (contrast.arm, contrast.against))
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

    `contrasts` are the open ones. `has_margin` says whether the equivalence margin applies to the primary metric.
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
        elif margin is not None and -margin < values.low and values.high < margin:
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
    return Look(seeds=plan.looks[number], date=utc_now(), contrasts=rows, error_left=plan.error_left(number))


def corrected(p: np.ndarray, look: int, plan: Plan, equivalent: int) -> np.ndarray:
    """Correct the p-values of the open contrasts at a look for all looks, and for all contrasts not found different.

    A contrast is different if its corrected p-value is below `plan.level`. `equivalent` is the number of contrasts
    that were found equivalent. They leave no error to the others.
    """
    over_looks = level_reached(p, look, plan.fractions, plan.stop)
    return holm(np.append(over_looks, np.ones(equivalent)))[: len(p)]
