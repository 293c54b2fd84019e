"""Steps that methods of combination would have taken with a finished run's completions, without a model::

    answers = methods_offline([runs / "mixed-1a2b3c4d/seed0", runs / "mixed-1a2b3c4d/seed1"], ["gdpo", "upgrad"])
    answers.estimates  # weights, cosine to the run's own step, its length, and effects on each component

Any arm of any study will do, and the runs need no method of their own. Scores and Gram matrices are those that the runs
stored. The completions are those of the run's policy: a run that is trained with another method has others after its
first step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_steps import (
    MeasuredRun,
    StepProducts,
    effects_on_other_prompts,
    read_products,
    spread_steps,
)
from reward_ablation.analysis.gradients.replay import History, MethodSettings, Replayed, read_history, replay
from reward_ablation.analysis.gradients.seed_intervals import Estimates, means_over_steps_and_seeds, over_seeds
from reward_ablation.analysis.gradients.similarity_by_arm import ratios
from reward_ablation.combination.call import named_components
from reward_ablation.combination.load import arguments_of_method, check, method_names
from reward_ablation.combination.of_run import SOURCES, Source
from reward_ablation.config.sections.training import DEFAULT_GRAM
from reward_ablation.study.reward_import import range_of
from reward_ablation.system.errors import StudyError

#: Rounding: how near to 1 a cosine counts as 1, and up to what share of the effects their difference counts as 0.
ROUNDING = 1e-9


@dataclass(frozen=True)
class OfflineComparison:
    """Answers of M methods at T measured steps of S runs with K components; NaN where a step is not known.

    `effects` are those of a step on each component's expected score on other prompts, per unit of the step's length
    (`effects_on_other_prompts`). In `products` and `effects` the step that was trained comes last, after the methods'.
    """

    methods: list[str]  # labels
    components: list[str]
    steps: list[int]  # measured steps that any run has
    products: np.ndarray  # (S, T, M + 1, M + 1) inner products of steps
    effects: np.ndarray  # (S, T, M + 1, K); also NaN where a method makes no step
    weights: np.ndarray  # (S, T, M, K); also NaN where a method has none
    left_out: Counter[str]  # numbers of measured steps that nothing can be said about, by reason
    confidence: float  # of the intervals

    @property
    def estimates(self) -> pd.DataFrame:
        """Rows (method, quantity, component) with intervals by Student's t over seeds, or over the steps of one seed.

        - cosine: between the method's step and the run's own, as in `similarity_by_arm`; component is null.
        - length: root mean square length of the method's steps over that of the run's own; component is null.
        - weight: the method's weight, mean over steps.
        - effect: of the method's step per unit of its length, mean over steps.
        - gain: this effect less that of the run's own step.
        """
        own = len(self.methods)
        gains = _differences(self.effects[:, :, :own], self.effects[:, :, own:])
        directions = _cosines(self.products, [(place, own) for place in range(own)], self.confidence)
        parts = [
            self._rows("cosine", directions, [None]),
            self._rows("length", _lengths(self.products, self.confidence), [None]),
            self._rows("weight", self._means(self.weights, self.confidence), self.components),
            self._rows("effect", self._means(self.effects[:, :, :own], self.confidence), self.components),
            self._rows("gain", self._means(gains, self.confidence), self.components),
        ]
        table = pd.concat(parts)
        return table.sort_values("place", kind="stable").drop(columns="place").reset_index(drop=True)

    def _means(self, values: np.ndarray, confidence: float) -> Estimates:
        """Estimates of (S, T, M, K) values, methods first."""
        seeds, steps, *kinds = values.shape
        return means_over_steps_and_seeds(
            np.moveaxis(values, (2, 3), (0, 1)).reshape(np.prod(kinds), seeds, steps), confidence
        )

    def _rows(self, quantity: str, found: Estimates, components: Sequence[str | None]) -> pd.DataFrame:
        known = ~np.isnan(self.products[:, :, -1, -1])
        places = np.repeat(np.arange(len(self.methods)), len(components))
        table = pd.DataFrame({"place": places, "method": np.array(self.methods, dtype=object)[places]})
        table = table.assign(
            quantity=quantity,
            component=np.tile(np.array(components, dtype=object), len(self.methods)),
            **found._asdict(),
        )
        table = table.assign(seeds=int(known.any(axis=1).sum()), steps=int(known.any(axis=0).sum()))
        return table.dropna(subset="estimate") if quantity == "weight" else table


def methods_offline(
    folders: str | Path | Sequence[str | Path],
    methods: Sequence[str] | Mapping[str, str | Mapping[str, Any] | MethodSettings] | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    confidence: float = 0.95,
    most: int | None = None,
    root: Path = Path(),
) -> OfflineComparison:
    """Compute the steps that methods would have taken at the measured steps of runs.

    `folders` are those of finished runs of one arm, one a seed. `methods` are names, or a mapping from any label to
    what an arm's `combine` may be: a method, or a mapping with `method`, parameters and `gram`. Here `gram` may also be
    `same_step`, the Gram matrix of the step itself. By default they are all methods that need neither parameters nor a
    range of scores that is not known. A method's state goes from generation to generation as in training.

    `weights` are by component, and by default those of the runs. `confidence` is that of the intervals. `most` limits
    the measured steps of a run to so many, evenly spread. Paths of a user's methods start from `root`. A StudyError is
    raised where a run or a method cannot be read or replayed, and where the runs have different components.
    """
    histories = [read_history(folder) for folder in ([folders] if isinstance(folders, str | Path) else folders)]
    if not histories:
        raise StudyError("methods_offline: no runs; name the folder of at least one finished run")
    components = histories[0].components
    for history in histories:
        if history.components != components:
            raise StudyError(f"{history.folder}: scored by other components than {histories[0].folder}")
    asked = asked_methods(methods, histories[0], weights, root)
    by_run, left_out = [], Counter[str]()
    for history in histories:
        steps, refused = answers_of_run(history, asked, most, root)
        by_run.append(steps)
        left_out.update(refused)
    return _stacked(by_run, list(asked), components, left_out, confidence)


def asked_methods(
    methods: Sequence[str] | Mapping[str, str | Mapping[str, Any] | MethodSettings] | None,
    history: History,
    weights: Mapping[str, float] | None,
    root: Path,
) -> dict[str, MethodSettings]:
    """Methods by label, checked as training checks them; by default all that pass the checks without parameters."""
    if methods is None:
        ready = {}
        for name in method_names():
            try:
                ready[name] = _asked(name, history, weights, root)
            except StudyError:  # it needs parameters, or a range that is not known
                continue
        return ready
    if not isinstance(methods, Mapping):
        methods = {name: name for name in methods}
    return {
        label: each if isinstance(each, MethodSettings) else _asked(each, history, weights, root)
        for label, each in methods.items()
    }


def _source(method: str, gram: Any, asked: bool) -> Source | None:
    """The Gram matrix that a method uses; refused where the name is unknown, or the method uses none."""
    if gram is not None and gram not in SOURCES:
        raise StudyError(f"{method}: gram: {gram!r} is unknown; write one of {', '.join(SOURCES)}")
    if gram and not asked:
        raise StudyError(f"{method}: gram: the method uses no gradients; leave it out")
    return cast(Source, gram or DEFAULT_GRAM) if asked else None


def _asked(
    written: str | Mapping[str, Any], history: History, weights: Mapping[str, float] | None, root: Path
) -> MethodSettings:
    own = {"method": written} if isinstance(written, str) else dict(written)
    method, gram = str(own.pop("method", "")), own.pop("gram", None)
    context = arguments_of_method(method, root).context
    source = _source(method, gram, "gram" in context)
    given = history.spec.weights if weights is None else weights
    unknown = [name for name in given if name not in history.components]
    if unknown:
        raise StudyError(f"weights: unknown component {unknown[0]!r}; components here: {', '.join(history.components)}")
    named = named_components(own, history.components)
    taking_part = {name: float(given.get(name, 0.0)) for name in history.components if given.get(name) or name in named}
    bounds = _bounds(history, taking_part, root) if "bounds" in context else {}
    limits = np.array([bounds.get(name, (np.nan, np.nan)) for name in taking_part], dtype=float).reshape(-1, 2)
    check(method, own, list(taking_part), list(taking_part.values()), limits, root)
    return MethodSettings(method, taking_part, own, source, bounds)


def _bounds(history: History, names: Iterable[str], root: Path) -> dict[str, tuple[float, float]]:
    """Known ranges of some components of a run; without those whose range cannot be found on this machine."""
    bounds = {}
    for name in names:
        component = history.spec.components[name]
        try:
            known = range_of(component.function, component.parameters, root)
        except StudyError:
            continue
        if known:
            bounds[name] = known
    return bounds


#: At a step: products (M + 1, M + 1), effects (M + 1, K) and weights (M, K).
AtStep = tuple[np.ndarray, np.ndarray, np.ndarray]


def answers_of_run(
    history: History, asked: Mapping[str, MethodSettings], most: int | None, root: Path
) -> tuple[dict[int, AtStep], Counter[str]]:
    """Answers of all methods by measured step, and the steps that were left out by reason."""
    replayed: list[Replayed] = []
    steps, refused = sorted(history.gradients), Counter[str]()
    steps = steps if most is None else spread_steps(steps, most)
    found: dict[int, AtStep] = {}
    stored = MeasuredRun(history.folder, steps, history.components)
    for step in steps:
        products = read_products(stored, step)
        if isinstance(products, str):
            refused[products.partition(": ")[2].replace(f"step {step}", "a step")] += 1
        else:
            replayed = replayed or [replay(history, method, root) for method in asked.values()]
            found[step] = answers_at_step(products, replayed)
    return found, refused


def answers_at_step(products: StepProducts, replayed: Sequence[Replayed]) -> AtStep:
    """What the methods' steps would have been at one measured step."""
    generations = np.unique(products.measured.completions.step)
    shares = [np.concatenate([each.shares[int(step)] for step in generations]) for each in replayed]
    shares.append(products.measured.own_shares)
    totals = np.array([of_method.sum(axis=1) for of_method in shares])  # (M + 1, N)
    inner = np.zeros((len(totals), len(totals)))
    for block, gram in zip(products.blocks, products.summed, strict=True):
        steps = totals[:, block.completions]
        inner += steps @ gram @ steps.T
    weights = np.array([each.weights[int(generations[-1])] for each in replayed])
    return inner, effects_on_other_prompts(products, shares), weights.reshape(len(replayed), -1)


def _stacked(
    by_run: list[dict[int, AtStep]],
    methods: list[str],
    components: list[str],
    left_out: Counter[str],
    confidence: float,
) -> OfflineComparison:
    """Answers of all runs in arrays."""
    steps = sorted(set().union(*by_run))
    size, kinds = len(methods), len(components)
    shapes = ((size + 1, size + 1), (size + 1, kinds), (size, kinds))
    products, effects, weights = (np.full((len(by_run), len(steps), *shape), np.nan) for shape in shapes)
    for run, found in enumerate(by_run):
        for step, parts in found.items():
            for array, part in zip((products, effects, weights), parts, strict=True):
                array[run, steps.index(step)] = part
    return OfflineComparison(methods, components, steps, products, effects, weights, left_out, confidence)


def _cosines(products: np.ndarray, places: Sequence[tuple[int, int]], confidence: float) -> Estimates:
    """Cosines of pairs of steps: means of products over the root of the product of the means of squares, by seed."""
    first, second = (np.array([place[side] for place in places], dtype=int) for side in (0, 1))
    squares = np.moveaxis(np.diagonal(products, axis1=2, axis2=3), 2, 0)  # (M + 1, S, T)
    by_seed, by_step = ratios(
        np.moveaxis(products[:, :, first, second], 2, 0), np.stack([squares[first], squares[second]])
    )
    return over_seeds(by_seed, by_step, confidence).clipped(-1, 1)


def _lengths(products: np.ndarray, confidence: float) -> Estimates:
    """Root mean square lengths of the methods' steps over that of the run's own; over steps by the delta method."""
    squares = np.moveaxis(np.diagonal(products, axis1=2, axis2=3), 2, 0)
    known = ~np.isnan(squares)
    means = np.where(known, squares, 0).sum(axis=2) / np.maximum(known.sum(axis=2), 1)
    means = np.where(known.any(axis=2) & (means > 0), means, np.nan)[..., None]
    own = means[-1:]
    methods = np.nan_to_num(means[:-1])  # a method that makes no step at all has length 0
    ratio = np.sqrt(methods / own)
    relative = np.divide(squares[:-1], methods, out=np.zeros(squares[:-1].shape), where=methods > 0)
    influence = ratio * (1 + (relative - squares[-1:] / own) / 2)
    found = over_seeds(ratio[..., 0], influence, confidence)
    return found.clipped(0, np.inf)


def _differences(effects: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Effects less those of other steps, (S, T, M, K); 0 where the difference is rounding."""
    differences = effects - others
    return np.where(np.abs(differences) <= ROUNDING * (np.abs(effects) + np.abs(others)), 0.0, differences)
