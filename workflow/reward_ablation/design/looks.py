"""Looks of a sequential study: tests of the open contrasts after planned numbers of seeds, as the tables estimate them.

The rule `describe` calls `with_next_look` when all answers of a look are there, and writes the look into `study.json`.
A look is no part of the tables, because tables are made again as often as needed, and a look is taken once.

A study that tests after two, three, five and eight seeds, each time at 5 %, is wrong far more often than in 5 % of
cases. Error spending (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983) divides
the error over the looks. The boundaries are computed for normal scores and then used as p-values, so that a test may
also use Student's t (the significance-level approach of Jennison and Turnbull, "Group Sequential Methods", 2000,
section 3.8).

The contrasts are group-sequential tests with Holm's correction (Maurer and Bretz, "Multiple testing in group sequential
trials using graphical approaches", Statistics in Biopharmaceutical Research 2013; Ye, Li, Liu and Yao, "A
group-sequential Holm procedure with multiple primary endpoints", Statistics in Medicine 2013). A contrast that is found
to be different leaves its part of the error to the open contrasts, from this look on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from reward_ablation.analysis.evaluation.answers import answers_reader, distribution_of_difference
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import lent_to_declared, seed_means
from reward_ablation.analysis.evaluation.stored_answers import check_answers, means_reader
from reward_ablation.analysis.evaluation.tables import runs_of_dataset
from reward_ablation.analysis.provenance import check_not_mixed, provenance
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.estimates import holm, intervals, p_values
from reward_ablation.analysis.statistics.limits import SHARE
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.config.sections.questions import Spending
from reward_ablation.study.looks import ContrastAtLook, Decision, Look, Sequential
from reward_ablation.study.primary import Contrast, utc_now
from reward_ablation.study.provenance import quantities

#: Nodes and weights of the numerical integration over the scores at one look; 101 nodes give eight digits.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(101)

#: The largest score. Its p-value, about 1e-299, is one that no test reaches.
FURTHEST = 37.0

#: Levels for which `level_reached` computes boundaries: 20 per decade. Interpolation between them has four digits.
LEVELS = np.logspace(-12, np.log10(0.999), 241)


def pocock(level: float, fraction: float) -> float:
    """Error spent up to an information fraction, about equally: Lan and DeMets' function near Pocock's boundaries."""
    return float(level * np.log1p((np.e - 1) * fraction))


def obrien_fleming(level: float, fraction: float) -> float:
    """Error spent up to an information fraction, almost nothing at early looks: near O'Brien and Fleming (1979)."""
    # Lan and DeMets' function. Each side spends half of the level.
    return float(4 * ndtr(ndtri(level / 4) / np.sqrt(fraction)))


SPENDING: dict[Spending, Callable[[float, float], float]] = {"pocock": pocock, "obrien_fleming": obrien_fleming}


class _Paths:
    """Distribution of a Brownian motion (score times root of the fraction) that has crossed no boundary so far."""

    def __init__(self) -> None:
        self.fraction = 0.0  # of the last look
        self.values, self.masses = np.zeros(1), np.ones(1)  # places of the motion there, and their probabilities

    def crossing(self, fraction: float, score: float) -> float:
        """Probability that the motion was inside so far, and has an absolute score of at least `score` at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        outside = ndtr((-end - self.values) / width) + ndtr((self.values - end) / width)
        return float(self.masses @ outside)

    def go_on(self, fraction: float, score: float) -> None:
        """Keep the paths whose absolute score stays below `score` at this look."""
        width, end = np.sqrt(fraction - self.fraction), score * np.sqrt(fraction)
        values = end * NODES
        density = np.exp(-(((values[:, None] - self.values) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
        self.values, self.masses, self.fraction = values, end * WEIGHTS * (density @ self.masses), fraction


@lru_cache(maxsize=4096)
def boundaries(level: float, fractions: tuple[float, ...], spending: Spending) -> tuple[float, ...]:
    """Two-sided p-values at which a test rejects, by look; the spending function divides `level` over `fractions`."""
    paths, spent, p_values = _Paths(), 0.0, []
    for fraction in fractions:
        error = SPENDING[spending](level, fraction) - spent
        spent += error
        score = _score(paths, fraction, error)
        paths.go_on(fraction, min(score, 9.0))  # no path is further out
        p_values.append(float(2 * ndtr(-score)))
    return tuple(p_values)


def _score(paths: _Paths, fraction: float, error: float) -> float:
    """The absolute score that is first reached at this look with probability `error`; `FURTHEST` for almost none."""

    def excess(score: float) -> float:
        return paths.crossing(fraction, score) - error

    return float(brentq(excess, 0.0, FURTHEST, xtol=1e-10)) if excess(FURTHEST) < 0 < excess(0.0) else FURTHEST


@lru_cache(maxsize=16)
def _log_boundaries(look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """Logarithms of a look's boundaries at the `LEVELS`, ascending."""
    return np.log(np.maximum([boundaries(level, fractions, spending)[look] for level in LEVELS], 1e-300))


def level_reached(p: np.ndarray, look: int, fractions: tuple[float, ...], spending: Spending) -> np.ndarray:
    """p-values that hold for all looks: smallest levels at which the test rejects (Liu, Anderson 2008), or 1."""
    grid = _log_boundaries(look, fractions, spending)
    return np.asarray(np.exp(np.interp(np.log(np.maximum(p, 1e-300)), grid, np.log(LEVELS), right=0.0)))


class Plan(NamedTuple):
    """Looks and error of a sequential study."""

    looks: tuple[int, ...]  # number of seeds at each look, ascending
    stop: Spending
    level: float  # probability that any look calls a contrast different that does not differ

    @property
    def fractions(self) -> tuple[float, ...]:
        """Information fraction of each look: its number of seeds over the number of seeds at the last look."""
        return tuple(look / self.looks[-1] for look in self.looks)

    def boundary(self, look: int, undecided: int) -> float:
        """The p-value at or below which the clearest of the `undecided` contrasts, a number, is called different."""
        return boundaries(round(self.level / undecided, 9), self.fractions, self.stop)[look]

    def confidence(self, look: int) -> float:
        """Confidence of the interval at a look, such that the intervals of all looks together have 1 - `level`."""
        # Repeated confidence intervals (Jennison and Turnbull 2000, chapter 9) hold whenever a study stops.
        return 1 - boundaries(self.level, self.fractions, self.stop)[look]

    def error_left(self, look: int) -> float:
        """Error that the looks after `look` may still spend on a contrast that has the whole level."""
        return self.level - SPENDING[self.stop](self.level, self.fractions[look])


class Measured(NamedTuple):
    """Estimate, repeated interval, p-value and seeds of a contrast at a look, in the primary metric."""

    estimate: float
    low: float
    high: float
    p: float
    seeds: int


def with_next_look(study: StudyFile, root: Path, refuse_mixed: bool) -> Sequential:
    """Take the next look from the answers of its runs. What the tables refuse raises StudyError: no look is taken."""
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
        lent = lent_to_declared(means, study, contrast.arm, contrast.against)  # of arms that lend variance
        difference, _ = distribution_of_difference(own, other, contrast.arm, contrast.against, primary.dataset, lent)
        column = own.metrics.index(primary.metric)
        low, high = intervals(difference, confidence)
        of_metrics = (difference.estimate, low, high, p_values(difference))
        estimate, low_end, high_end, p = (float(values[column]) for values in of_metrics)
        seeds = int(np.broadcast_to(difference.seeds, len(own.metrics))[column])
        results.append(Measured(estimate, low_end, high_end, p, seeds))
    return results


def next_look(
    contrasts: list[Contrast], measured: list[Measured], plan: Plan, record: Sequential, has_margin: bool
) -> Look:
    """Decide on each open contrast; `has_margin`: whether the equivalence margin applies to the primary metric."""
    # A contrast that diverged runs left with one seed is not decided: its numbers are over questions alone.
    number = len(record.taken)
    measured = [values if values.seeds > 1 else values._replace(p=1.0) for values in measured]
    equivalent = sum(contrast.decision == "equivalent" for look in record.taken for contrast in look.contrasts)
    p_holm = corrected(np.array([values.p for values in measured]), number, plan, equivalent)
    margin = record.margin if has_margin else None
    rows = []
    for contrast, values, p in zip(contrasts, measured, p_holm, strict=True):
        decision: Decision = "open" if number + 1 < len(plan.looks) else "undecided"
        if p < plan.level:
            decision = "different"
        elif margin is not None and values.seeds > 1 and -margin < values.low and values.high < margin:
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
    """p-values of open contrasts, corrected for looks, and by Holm with `equivalent` others, which keep their error."""
    over_looks = level_reached(p, look, plan.fractions, plan.stop)
    return holm(np.append(over_looks, np.ones(equivalent)))[: len(p)]
