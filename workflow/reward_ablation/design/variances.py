"""Variance components of a study's primary metric: between seeds, between questions, and of single answers.

The commands `power` and `budget` call it before they plan. The variances come from a pilot, the answers of finished
runs of the same study or of another, or the user states them.

The mean of an arm's seed over Q questions with n samples each varies by

    slope² (common + seed) + (interaction + sample / n) / Q

where `common` is the variance of what a seed does to all arms alike, and `seed` that of what a seed does to one arm.
Both are on the comparable scale, on which `analysis.statistics.seed_variance` compares arms. `slope` converts one unit
of that scale into units of the metric. `interaction` and `sample` are as in `Components`. A difference of two arms has
no common part. The choice of questions adds `question` / Q to its variance, whatever the number of seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import chdtri

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import ModeMeans, is_of_samples, measured, question_means
from reward_ablation.analysis.evaluation.stored_answers import read_answers
from reward_ablation.analysis.statistics.estimates import mean_squares
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile, StudyRun, read_study
from reward_ablation.study.primary import Question
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.errors import StudyError

#: Confidence of the interval of the variance between seeds. Browne ("On the use of a pilot sample for sample size
#: determination", Statistics in Medicine 1995) plans with the upper end of such an interval.
CONFIDENCE = 0.8

#: Names of two arms: the first is compared with the second.
Pair = tuple[str, str]


class SeedPart(NamedTuple):
    """Variance between seeds on the comparable scale, which still includes the noise of finitely many questions."""

    total: float  # mean square of what a seed does to one arm
    noise: float  # the part of `total` that more questions or samples would remove
    degrees: float  # degrees of freedom of `total`; infinite for a stated value
    common: float = 0.0  # variance of what a seed does to all arms alike

    @property
    def variance(self) -> float:
        """Variance between seeds without the noise of finitely many questions."""
        return max(self.total - self.noise, 0.0)

    def ends(self) -> tuple[float, float]:
        """Ends of the chi-square interval of `variance`. A stated value is certain: both ends are the value."""
        if not np.isfinite(self.degrees):
            return self.variance, self.variance
        squares = [self.total * self.degrees / chdtri(self.degrees, (1 + sign * CONFIDENCE) / 2) for sign in (-1, 1)]
        low, high = (max(square - self.noise, 0.0) for square in squares)
        return low, high

    def drawn(self, studies: int, rng: np.random.Generator) -> np.ndarray:
        """(studies,) array: values of `variance`, drawn as the pilot's degrees of freedom make them probable."""
        if not np.isfinite(self.degrees):
            return np.full(studies, self.variance)
        return np.maximum(self.total * self.degrees / rng.chisquare(self.degrees, studies) - self.noise, 0.0)


@dataclass(frozen=True)
class Components:
    """Variance components of one metric on one data set in one mode, in squared units of the metric.

    `interaction` is the variance between an arm's seeds of the expected answer to a question, beyond what a seed does
    to all questions; `sample`, of one answer about it; `question`, between questions, of the difference of two arms.
    """

    limits: Limits  # of the metric
    means: Mapping[str, float]  # of each arm
    seed: SeedPart  # estimated from all arms together
    interaction: Mapping[str, float]
    sample: Mapping[str, float]
    question: Mapping[Pair, float]
    questions: int  # of the pilot
    samples: int  # of the pilot, per question
    seeds: int  # of the pilot: the most seeds of an arm; 0 for stated values
    source: str  # where the components are from, in words
    by_arm: Mapping[str, SeedPart] = field(default_factory=dict)  # each from its arm alone, with two or more seeds
    flagged: tuple[str, ...] = ()  # arms that use their own variance: their seeds differ more than chance allows

    def seed_of(self, arm: str) -> SeedPart:
        """Variance between an arm's seeds: the variance of all arms, or of the arm alone if it is flagged."""
        return self.by_arm[arm] if arm in self.flagged else self.seed

    def slope(self, arm: str) -> float:
        """Units of the metric per unit of the comparable scale, at an arm's mean."""
        means = SeedMeans([arm], [0], np.full((1, 1, 1), self.means[arm]), [self.limits], self.questions)
        return float(means.slope[0, 0])

    def answer_variance(self, arm: str, questions: int, samples: int) -> float:
        """Variance of a seed's mean from its answers to `questions` questions with `samples` samples each."""
        return (self.interaction[arm] + self.sample[arm] / samples) / questions

    def seed_variance(self, arm: str, questions: int, samples: int) -> float:
        """Variance of an arm's seed means, in squared units of the metric, without what a seed does to all arms."""
        of_seed = self.slope(arm) ** 2 * self.seed_of(arm).variance
        return of_seed + self.answer_variance(arm, questions, samples)

    def for_arms(self, arms: Iterable[str], pairs: Iterable[Pair]) -> Components:
        """Components of a study's arms and pairs; what has no value gets the mean of the others, a pair also 0."""
        names = list(arms)

        def filled(values: Mapping[str, float]) -> dict[str, float]:
            mean = float(np.mean([*values.values()]))
            return {name: values.get(name, mean) for name in names}

        mean = float(np.mean([*self.question.values()])) if self.question else 0.0
        known = {**{(b, a): value for (a, b), value in self.question.items()}, **self.question}
        return replace(
            self,
            means=filled(self.means),
            interaction=filled(self.interaction),
            sample=filled(self.sample),
            question={pair: known.get(pair, mean) for pair in pairs},
            by_arm={name: value for name, value in self.by_arm.items() if name in names},
            flagged=tuple(name for name in self.flagged if name in names),
        )


def finished_runs(study: StudyFile, root: Path, dataset: str) -> list[StudyRun]:
    """Runs of a study that have a record, answers to a data set, and scores of these answers if any are needed."""
    finished = []
    for run in study.runs:
        files = [f"{run.folder}/{RECORD}", study.answers_file(dataset, run.name), study.scores_file(dataset, run.name)]
        if all((root / file).is_file() for file in files if file):
            finished.append(run)
    return finished


def pilot_of(study: StudyFile, root: Path, question: Question, source: str) -> Components:
    """Components of a metric, from finished runs of a pilot; refused without set, metric, or an arm with two seeds."""
    runs = finished_runs(study, root, question.dataset) if question.dataset in study.datasets else []
    if question.dataset not in study.datasets:
        raise StudyError(f"{source}: has no data set {question.dataset}; its data sets: {', '.join(study.datasets)}")
    values: dict[str, dict[int, np.ndarray]] = {}
    noise: dict[str, list[float]] = {}
    questions, samples = None, 1
    for run in runs:
        of_run, sample_of_run = _answers_of(study, root, question, run, source)
        questions = of_run.problems.tolist() if questions is None else questions
        if of_run.problems.tolist() != questions:
            raise StudyError(f"{source}: its runs answered different questions; run the workflow there again")
        values.setdefault(run.arm, {})[run.seed] = of_run.of(question.metric)
        noise.setdefault(run.arm, []).append(sample_of_run)
        samples = int(of_run.answers[0])
    sample = {arm: float(np.mean(of_arm)) for arm, of_arm in noise.items()}
    limits = metrics_of_study(study).limits(question.metric)
    return estimate_components(values, samples, sample, limits, _pairs(study, question, values), source)


def read_pilot(folder: Path, question: Question, source: str) -> Components:
    """Variance components from the folder of another study. Raises StudyError if it is none, or as `pilot_of`."""
    if not (folder / "study.json").is_file():
        raise StudyError(f"pilot: {source}: not a study's results folder, because it has no study.json; name another")
    return pilot_of(read_study(folder / "study.json"), folder, question, source)


def _pairs(study: StudyFile, question: Question, arms: Iterable[str]) -> list[Pair]:
    """Pairs of the question whose arms the pilot has; if there are none, the pilot's own primary pairs."""
    known = set(arms)
    planned = [(contrast.arm, contrast.against) for contrast in question.contrasts]
    own = [(contrast.arm, contrast.against) for contrast in study.primary.contrasts]
    return [pair for pair in planned if known.issuperset(pair)] or [pair for pair in own if known.issuperset(pair)]


def _answers_of(
    study: StudyFile, root: Path, question: Question, run: StudyRun, source: str
) -> tuple[ModeMeans, float]:
    """Question means of a run, and the mean variance of one of several samples; 0 for one, and for pass@4."""
    metrics = metrics_of_study(study)
    answers = read_answers(study, root, question.dataset, run.name, metrics.columns)
    answers = answers[answers["mode"] == question.mode]
    of_mode = question_means(answers, metrics).get(question.mode)
    if of_mode is None or question.metric not in of_mode.metrics:
        raise StudyError(f"{source}: has no metric {question.metric} in mode {question.mode}; name another pilot")
    if of_mode.answers[0] < 2 or is_of_samples(question.metric):
        return of_mode, 0.0
    values = pd.Series(measured(answers, metrics)[question.metric], answers.index)
    return of_mode, float(values.groupby(answers["problem_id"]).var().mean())


def estimate_components(
    values: Mapping[str, Mapping[int, np.ndarray]],
    samples: int,
    sample: Mapping[str, float],
    limits: Limits,
    pairs: Iterable[Pair],
    source: str,
) -> Components:
    """Estimate variance components from question means by arm and seed, with the questions in one order.

    `samples` is the number of answers to a question. `sample` is the variance of one of them about their mean, by arm.
    """
    several = {arm: np.stack([*of_seeds.values()]) for arm, of_seeds in values.items() if len(of_seeds) > 1}
    if not several:
        raise StudyError(f"{source}: no arm has two finished seeds to show how much seeds differ; state seed_sd")
    residual = {arm: float(mean_squares(of_arm[None]).residual[0]) for arm, of_arm in several.items()}
    means = SeedMeans.of_questions(values, limits)
    noise = noise_of(means, residual)
    by_arm = {
        arm: SeedPart(float(squares / degrees), noise[arm], float(degrees))
        for arm, squares, degrees in zip(means.arms, means.squares[0], means.degrees, strict=True)
        if arm in residual
    }
    flagged = [arm for arm, flag in zip(means.arms, means.flagged[0], strict=True) if flag]
    return Components(
        limits=limits,
        means={arm: float(np.mean([*of_seeds.values()])) for arm, of_seeds in values.items()},
        seed=pooled_seed_variance(means, noise),
        interaction={arm: max(float(of_arm) - sample[arm] / samples, 0.0) for arm, of_arm in residual.items()},
        sample=dict(sample),
        question=question_variances(values, residual, pairs),
        questions=means.questions,
        samples=samples,
        seeds=max(map(len, values.values())),
        source=source,
        by_arm=by_arm,
        flagged=tuple(flagged),
    )


def noise_of(means: SeedMeans, residual: Mapping[str, float]) -> dict[str, float]:
    """Variance of each arm's seed means from the finite number of questions and samples, on the comparable scale."""
    slopes = dict(zip(means.arms, means.slope[0], strict=True))
    return {arm: float(square / (means.questions * slopes[arm] ** 2)) for arm, square in residual.items()}


def pooled_seed_variance(means: SeedMeans, noise: Mapping[str, float]) -> SeedPart:
    """Variance between seeds of arms that have several and are not flagged, else of the arm with most seeds.

    The arms' means by the seeds that all of them have are a table: its interaction is what a seed does to one arm, and
    a seed's mean over the arms what it does to all. With fewer than two such seeds the arms' variances are averaged by
    degrees of freedom, and the common part is 0. Arms that share their runs count once.
    """
    chosen = [arm for arm in np.flatnonzero(means.first_of_kind) if means.degrees[arm] and not means.flagged[0, arm]]
    chosen = chosen or [int(np.argmax(means.degrees))]
    mean_noise = float(np.mean([noise[means.arms[arm]] for arm in chosen]))
    shared = means.known[chosen].all(axis=0)
    if shared.sum() < 2:
        degrees = float(means.degrees[chosen].sum())
        return SeedPart(float(means.squares[0, chosen].sum() / degrees), mean_noise, degrees)
    table = means.centred[0][chosen][:, shared]
    table = table - table.mean(axis=1, keepdims=True)
    arms, seeds = table.shape
    if arms == 1:
        return SeedPart(float((table**2).sum() / (seeds - 1)), mean_noise, seeds - 1.0)
    mean = table.mean(axis=0)
    degrees = (arms - 1.0) * (seeds - 1)
    total = float(((table - mean) ** 2).sum() / degrees)
    return SeedPart(total, mean_noise, degrees, max(float((mean**2).sum() / (seeds - 1)) - total / arms, 0.0))


def question_variances(
    values: Mapping[str, Mapping[int, np.ndarray]], residual: Mapping[str, float], pairs: Iterable[Pair]
) -> dict[Pair, float]:
    """Variance between questions of the difference of two arms, from differences by seed if they share two seeds."""
    # Otherwise from means over seeds, less the noise of residual mean squares, as in `estimates.spread_of_two`. An arm
    # of one seed has no residual, and takes the mean of the arms.
    mean_residual = float(np.mean([*residual.values()]))
    variances = {}
    for one, other in pairs:
        shared = [seed for seed in values[one] if seed in values[other]]
        if len(shared) > 1:
            squares = mean_squares(np.stack([values[one][seed] - values[other][seed] for seed in shared])[None])
            variance = (squares.question[0] - squares.residual[0]) / len(shared)
        else:
            first, second = (np.mean([*values[arm].values()], axis=0) for arm in (one, other))
            noise = sum(residual.get(arm, mean_residual) / len(values[arm]) for arm in (one, other))
            variance = np.var(first - second, ddof=1) - noise
        variances[one, other] = float(max(variance, 0.0))
    return variances


#: Usual values for a study without answers, if the metric has a lowest and a highest value, such as a share: the
#: variance of a single answer to one question over (mean - lowest) * (highest - mean), and the standard deviation
#: between questions of a difference of two arms over highest - lowest. The first value is from benchmarks/coverage.py,
#: where the difficulty of questions has a standard deviation of 1.5 on the logistic scale.
USUAL_SHARE_OF_SAMPLING, USUAL_QUESTION_SD = 0.7, 0.2


class Stated(NamedTuple):
    """Values that the user states, in units of the metric. None stands for a value that the user does not state."""

    seed_sd: float | None = None  # standard deviation between the seeds of one arm
    question_sd: float | None = None  # standard deviation between questions of a difference of two arms
    answer_sd: float | None = None  # standard deviation of a single answer to one question, over seeds and samples
    mean: float | None = None  # of every arm


def components_from_stated(
    values: Stated, limits: Limits, questions: int, samples: int, greedy: bool, arms: list[str], pairs: list[Pair]
) -> Components:
    """Components from stated values, and usual ones for the rest; refused where a value has no usual one.

    Answers that are `greedy`, or a metric of all samples, vary from seed to seed; others vary by sampling.
    """
    if values.seed_sd is None:
        raise StudyError("seed_sd: the standard deviation between seeds is not known; state it, or name a pilot")
    bounded = limits.finite
    mean, answer_sd = values.mean, values.answer_sd
    if mean is None and bounded:
        mean = (limits.low + limits.high) / 2
    if mean is None or not limits.low <= mean <= limits.high:
        raise StudyError(f"mean: state a mean of the metric between {limits.low:g} and {limits.high:g}")
    if answer_sd is None and not bounded:
        raise StudyError("answer_sd: a metric without limits needs the standard deviation of an answer; state it")
    if values.question_sd is None and not bounded:
        raise StudyError(
            "question_sd: a metric without limits needs the standard deviation of a difference between questions; "
            "state it"
        )
    width = limits.high - limits.low
    if answer_sd is None:
        answer_sd = float(np.sqrt(USUAL_SHARE_OF_SAMPLING * (mean - limits.low) * (limits.high - mean)))
    question_sd = USUAL_QUESTION_SD * width if values.question_sd is None else values.question_sd
    usual = [name for name in ("mean", "answer_sd", "question_sd") if getattr(values, name) is None]
    source = f"stated (seed_sd {values.seed_sd:g})" + (f", usual values of {', '.join(usual)}" if usual else "")
    components = Components(
        limits=limits,
        means={arm: float(mean) for arm in arms},
        seed=SeedPart(0.0, 0.0, np.inf),
        interaction=dict.fromkeys(arms, answer_sd**2 if greedy else 0.0),
        sample=dict.fromkeys(arms, 0.0 if greedy else answer_sd**2),
        question=dict.fromkeys(pairs, question_sd**2),
        questions=questions,
        samples=samples,
        seeds=0,
        source=source,
    )
    return override_components(components, Stated(seed_sd=values.seed_sd))


def override_components(components: Components, values: Stated) -> Components:
    """Replace the components of a pilot by the stated values, which count as certain."""
    changes: dict[str, Any] = {}
    arms, pairs = list(components.means), list(components.question)
    if values.mean is not None:
        changes["means"] = dict.fromkeys(arms, values.mean)
        components = replace(components, **changes)  # the slopes, below, are at the new means
    if values.seed_sd is not None:
        slope = float(np.mean([components.slope(arm) for arm in arms]))
        changes["seed"] = SeedPart((values.seed_sd / slope) ** 2, 0.0, np.inf)
        changes["flagged"] = ()
    if values.question_sd is not None:
        changes["question"] = dict.fromkeys(pairs, values.question_sd**2)
    if values.answer_sd is not None:
        sampled = any(components.sample.values())
        changes["interaction"] = dict.fromkeys(arms, 0.0 if sampled else values.answer_sd**2)
        changes["sample"] = dict.fromkeys(arms, values.answer_sd**2 if sampled else 0.0)
    named = [f"{name} {value:g}" for name, value in values._asdict().items() if value is not None]
    if components.seeds and named:  # a pilot's; the source of stated components names the values already
        changes["source"] = f"{components.source}; stated: {', '.join(named)}"
    return replace(components, **changes)
