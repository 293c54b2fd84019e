"""Changes of curves over training or over kept models, with errors and p-values: a rise, a bend, a gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

from reward_ablation.analysis.reward_hacking.noise import Contrasts, contrasts, larger, points, points_of, wander

#: Segments that a curve is split into, and fewest points of one.
SEGMENTS, LEAST_POINTS = 8, 2

#: Points before the first and after the last place where a curve may bend.
MARGIN = 5

#: A curve has stopped rising where its slope after a bend is at most this share of that before.
STOPPED = 0.25


@dataclass(frozen=True)
class Change:
    """How a curve changed from an earlier place to its end.

    Parameters
    ----------
    since : int
        Step of the earlier place.
    before, after : float
        Value there and at the end, mean over seeds.
    by_seed : (S,) array
        after - before of each seed.
    error : float
        Standard error of after - before from the noise within these runs.
    p : float
        One-sided p-value of a rise, by that noise, corrected for the search for the place.
    points : int
        Number of points of the curve.
    onset : int
        Step from which it rose.
    """

    since: int
    before: float
    after: float
    by_seed: np.ndarray
    error: float
    p: float
    points: int
    onset: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Interval of the change over seeds by Student's t with S - 1 degrees of freedom, two-sided.

        Never narrower than the noise within runs makes it. With one seed the interval is by that noise alone, and says
        nothing about other seeds.
        """
        tail = (1 - confidence) / 2
        margin = -float(ndtri(tail)) * self.error
        seeds = len(self.by_seed)
        if seeds > 1:
            margin = max(margin, float(-stdtrit(seeds - 1, tail) * self.by_seed.std(ddof=1) / np.sqrt(seeds)))
        middle = self.after - self.before
        return middle - margin, middle + margin


@cache
def segments_of(count: int) -> list[np.ndarray]:
    """Points of each segment of a curve: `SEGMENTS` of nearly equal size, fewer where points are few."""
    return np.array_split(np.arange(count), max(1, min(SEGMENTS, count // LEAST_POINTS)))


@cache
def means_of_segments(count: int) -> np.ndarray:
    """(segments, n) weights of the mean of each segment."""
    return np.array([np.isin(np.arange(count), some) / len(some) for some in segments_of(count)])


@cache
def broken_lines(count: int) -> np.ndarray:
    """(places, 3, n) least-squares weights of a line that bends at a place: level, slope before, and change of slope.

    A place is one of the points, `MARGIN` or more from both ends.
    """
    numbers = np.arange(count, dtype=float)
    places = range(MARGIN, count - MARGIN)
    bases = [np.column_stack([np.ones(count), numbers, np.maximum(numbers - place, 0)]) for place in places]
    return np.array([np.linalg.pinv(basis) for basis in bases])


def steps_of_points(steps: np.ndarray) -> np.ndarray:
    """Middle step of each point of a curve."""
    return np.array([steps[some[len(some) // 2]] for some in points_of(len(steps))])


def segment_at(steps: np.ndarray, since: int) -> int:
    """Number of the last segment that begins at a step or before it; never the curve's last segment."""
    middles = steps_of_points(steps)
    starts = np.array([middles[some[0]] for some in segments_of(len(middles))])
    return min(max(0, int(np.searchsorted(starts, since, side="right")) - 1), max(0, len(starts) - 2))


def rises(curves: np.ndarray) -> Contrasts:
    """The last segment of a curve against each earlier one, from (S, n) points."""
    means = means_of_segments(curves.shape[1])
    return contrasts(curves, means[-1] - means[:-1])


def change_at(curves: np.ndarray, steps: np.ndarray, of: Contrasts, place: int, p: float) -> Change:
    """The change since the segment with number `place`, which is the same contrast of `of`."""
    segment = segments_of(curves.shape[1])[place]
    since = int(steps_of_points(steps)[segment[len(segment) // 2]])
    before = float(curves[:, segment].mean())
    by_seed = of.by_seed[:, place]
    after = before + float(by_seed.mean())
    return Change(since, before, after, by_seed, float(of.error[place]), p, curves.shape[1], since)


def largest_rise(curve: pd.DataFrame) -> Change | None:
    """The rise to the last eighth of the steps, from the earlier eighth that gives the surest rise.

    `curve` has one row per seed and one column per step. None with too few steps.
    """
    steps, curves = curve.columns.to_numpy(), points(curve.to_numpy())
    if curves is None:
        return None
    of = rises(curves)
    place, p = of.largest()
    rise = change_at(curves, steps, of, place, p)
    bend, p_bend = sharpest_bend(curves, 1)
    # A rise that lasts from the start has no bend where it begins: then the segment is the onset.
    return replace(rise, onset=int(steps_of_points(steps)[bend])) if p_bend < 0.05 else rise


def sharpest_bend(curves: np.ndarray, sign: int) -> tuple[int, float]:
    """Point at which a line through (S, n) points bends the most, and the p-value against a straight line.

    `sign` is 1 for a bend upwards and -1 for one downwards.
    """
    lines = broken_lines(curves.shape[1])
    if not len(lines):
        return 0, 1.0
    place, p = contrasts(curves, sign * lines[:, 2]).largest()
    return place + MARGIN, p


def rise_since(curve: pd.DataFrame, since: int) -> Change | None:
    """The rise from the segment of a step to the last; the place is given, so the p-value is not corrected for it."""
    steps, curves = curve.columns.to_numpy(), points(curve.to_numpy())
    if curves is None:
        return None
    of, place = rises(curves), segment_at(steps, since)
    return change_at(curves, steps, of, place, of.p(place))


def plateau(curve: pd.DataFrame) -> Change | None:
    """Where a curve that rose stopped rising: the change since its sharpest bend downwards.

    The p-value is the larger of two: that of the bend, against a straight line, and that of the rise before the bend.
    It is 1 where the slope after the bend is more than `STOPPED` of the slope before. None with too few steps.
    """
    steps, curves = curve.columns.to_numpy(), points(curve.to_numpy())
    if curves is None or not len(broken_lines(curves.shape[1])):
        return None
    bend, p_bend = sharpest_bend(curves, -1)
    line = broken_lines(curves.shape[1])[bend - MARGIN]
    _, before, change = line @ curves.mean(axis=0)
    p_before = contrasts(curves, line[1:2]).p(0)
    stopped = before > 0 and before + change <= STOPPED * before
    onset = int(steps_of_points(steps)[bend])
    of, place = rises(curves), segment_at(steps, onset)
    return replace(change_at(curves, steps, of, place, max(p_bend, p_before) if stopped else 1.0), onset=onset)


def reward_rise(curve: pd.DataFrame, since: int) -> Change | None:
    """The rise of a reward from the segment of a step to the last, one-sided by Student's t.

    A reward may jump within a few steps, which no smooth trend follows: the variance of a point is half the mean square
    of differences of neighbours (von Neumann et al., "The mean square successive difference", 1941). A trend or a jump
    makes this variance too large, and autocorrelated noise makes it too small. It has about two thirds of the degrees
    of freedom.
    """
    steps, curves = curve.columns.to_numpy(), points(curve.to_numpy())
    if curves is None:
        return None
    place = segment_at(steps, since)
    segments = segments_of(curves.shape[1])
    differences = np.diff(curves, axis=1)
    variance = np.square(differences).mean() / 2 * (1 / len(segments[place]) + 1 / len(segments[-1]))
    error = float(np.sqrt(variance / len(curves)))
    by_seed = curves[:, segments[-1]].mean(axis=1) - curves[:, segments[place]].mean(axis=1)
    rise, before = float(by_seed.mean()), float(curves[:, segments[place]].mean())
    p = float(stdtr(2 * differences.size / 3, -rise / error)) if error > 0 else 1.0
    at = int(steps_of_points(steps)[segments[place][len(segments[place]) // 2]])
    return Change(at, before, before + rise, by_seed, error, p, curves.shape[1], at)


def parting(component: pd.DataFrame, accuracy: pd.DataFrame, since: int) -> float:
    """p-value that a component went on rising after a step while accuracy did not, in units of their rises before.

    The component is scaled to the rise of accuracy before the step, so that curves which level off alike do not part.
    """
    steps = accuracy.columns.to_numpy()
    up, right, later = points(component.to_numpy()), points(accuracy.to_numpy()), reward_rise(component, since)
    if up is None or right is None or later is None or up.shape != right.shape:
        return 1.0
    place = segment_at(steps, since)
    means = means_of_segments(up.shape[1])
    risen_up, risen_right = ((means[place] - means[0]) @ curves.mean(axis=0) for curves in (up, right))
    if risen_up <= 0 or risen_right <= 0:
        return later.p
    scale, of = risen_right / risen_up, rises(right)
    t = (scale * (later.after - later.before) - of.estimate[place]) / np.hypot(scale * later.error, of.error[place])
    return float(1 + (-of.drawn[:, place] >= t).sum()) / (1 + len(of.drawn))


def wander_of(curve: pd.DataFrame, sampling: pd.DataFrame) -> float:
    """Variance of a model's accuracy about the trend, beyond the sampling variance of each step's mean."""
    curves = points(curve.to_numpy())
    if curves is None:
        return 0.0
    known = sampling.to_numpy()[np.isfinite(sampling.to_numpy())]
    steps_of_a_point = curve.shape[1] / curves.shape[1]
    return wander(curves, float(known.mean()) / steps_of_a_point if len(known) else 0.0)


def rise_over_questions(values: np.ndarray, steps: np.ndarray, wandering: float = 0.0) -> Change | None:
    """The rise from an earlier model to the last one. The earlier model is the one with the surest rise.

    The test takes questions as drawn: a one-sided paired t-test over questions for each earlier model, and the smallest
    p-value times the number of tests (Bonferroni). The error allows for the wandering of models about their trend, and
    is no smaller than the error by the spread of seeds.

    Parameters
    ----------
    values : (S, P, Q) array
        Answers of P models of each seed to Q questions.
    steps : (P,) array
        Steps of the models.
    wandering : float
        Variance of a model's level about the trend.
    """
    if values.shape[1] < 2 or values.shape[2] < 2:
        return None
    means = values.mean(axis=0)
    differences = means[-1] - means[:-1]
    rise, questions = differences.mean(axis=1), differences.shape[1]
    of_seeds = (values[:, -1:] - values[:, :-1]).mean(axis=2)
    error = larger(np.sqrt(differences.var(axis=1, ddof=1) / questions + 2 * wandering / len(values)), of_seeds)
    t = np.divide(rise, error, out=np.where(rise > 0, np.inf, 0.0), where=error > 0)
    place = int(np.argmax(t))
    before, after = values[:, [place, -1]].mean(axis=(0, 2))
    by_seed = of_seeds[:, place]
    p = min(1.0, float(stdtr(questions - 1, -t[place])) * len(t))
    since = int(steps[place])
    return Change(since, float(before), float(after), by_seed, float(error[place]), p, len(steps), since)


def gap_to_held_out(
    training: pd.DataFrame, held_out: np.ndarray, models: np.ndarray, wandering: float = 0.0
) -> Change | None:
    """The trend in the gap between a training curve and (S, P, Q) held-out answers, at the steps of P models.

    The training curve at a model's step is that of a line through the points within one distance of models. The trend
    is the slope of the least-squares line through the gaps. Its error has the noise of the curve, the choice of
    questions, and the wandering of models. None with too few steps, models or questions.
    """
    steps, curves = training.columns.to_numpy(), points(training.to_numpy())
    seeds, count, questions = held_out.shape
    if curves is None or count < 2 or questions < 2:
        return None
    middles, width = steps_of_points(steps), float(np.diff(models).max())
    at_models = np.array([line_at(middles, model, width) for model in models])
    time = models - models.mean()
    trend = time * float(models[-1] - models[0]) / float(np.square(time).sum())  # rise of the line from end to end
    of = contrasts(curves, (trend @ at_models)[None])
    of_questions = np.tensordot(trend, held_out.mean(axis=0), axes=1)
    variance = of_questions.var(ddof=1) / questions + float(np.square(trend).sum()) * wandering / seeds
    error = float(np.hypot(of.error[0], np.sqrt(variance)))
    gaps = curves @ at_models.T - held_out.mean(axis=2)
    by_seed = gaps @ trend
    rise = float(by_seed.mean())
    t = rise / error if error > 0 else np.inf * (rise > 0)
    p = float(1 + (of.drawn[:, 0] >= t).sum()) / (1 + len(of.drawn))
    before = float(gaps.mean()) - rise / 2
    return Change(int(models[0]), before, before + rise, by_seed, error, p, count, int(models[0]))


def line_at(middles: np.ndarray, step: int, width: float) -> np.ndarray:
    """Weights of the value at a step of the line through the points within a distance of it, at least two."""
    distance = np.abs(middles - step)
    near = distance <= max(width, float(np.sort(distance)[1]))
    basis = np.column_stack([np.ones(near.sum()), middles[near] - step])
    weights = np.zeros(len(middles))
    weights[near] = np.linalg.pinv(basis)[0]
    return weights
