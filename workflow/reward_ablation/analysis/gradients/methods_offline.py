"""Steps that methods of combination would have taken with a finished run's completions, without a model.

The rule `tables_combination` calls it for the runs of the baseline, and users call it in scripts of their own::

    methods = {"gdpo": MethodSettings("gdpo", {"correctness": 1.0, "format": 0.5})}
    answers = methods_offline([runs / "mixed-1a2b3c4d/seed0", runs / "mixed-1a2b3c4d/seed1"], methods)
    answers.estimates  # weights, cosine to the run's own step, its length, and effects on each component

Runs of any arm will do, with or without a method of their own, and no study is needed. Without stored Gram matrices,
inner products of single completions' gradients (key `gradients.every`), the answer is empty. A method sees what it
would have seen in training: the scores of all generations in order (the rows of one are sorted by problem), its own
state, and the Gram matrices of the steps that were measured before, or of the step itself with `gram: same_step`. The
completions are those of the run's policy: a run that is trained with another method has others after its first step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.analysis.gradients.measured_steps import (
    MeasuredRun,
    MeasuredStep,
    effects_on_other_prompts,
    products_of_steps,
    read_rollouts,
    read_step,
    scale_rewards_of,
    spread_steps,
)
from reward_ablation.analysis.gradients.seed_intervals import Estimates, means_over_steps_and_seeds, over_seeds
from reward_ablation.analysis.gradients.similarity_by_arm import ratios
from reward_ablation.analysis.reading import column_names, damage_reported, read_parquet
from reward_ablation.analysis.runs import rerun_of
from reward_ablation.combination.load import load_method
from reward_ablation.combination.normalisation import NORMALIZE_THEN_SUM
from reward_ablation.combination.of_run import CombinationOfRun, Source
from reward_ablation.config.sections.training import AGGREGATION
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.gram.similarity import ALL_LAYERS
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.digests import read_object
from reward_ablation.system.errors import StudyError
from reward_ablation.system.started_in import started_in

#: TRL's default learning rate, for runs whose config and metrics have none.
TRL_LEARNING_RATE = 1e-6

#: `gram` of a method that uses the Gram matrix of the step itself.
SAME_STEP: Source = "same_step"


@dataclass(frozen=True)
class MethodSettings:
    """A method with the settings that an arm gives it; they are those of `CombinationOfRun`."""

    method: str
    weights: Mapping[str, float]  # of all components that take part
    parameters: Mapping[str, Any] = field(default_factory=dict)
    gram: Source | None = None  # Gram matrix that the method uses; None where it uses none
    bounds: Mapping[str, Sequence[float]] = field(default_factory=dict)  # known ranges of the components' scores


def method_of_arm(spec: ArmSpec) -> MethodSettings:
    """How an arm combines its components: by its method, or by TRL's settings."""
    weights = {name: float(weight) for name, weight in spec.weights.items() if name in spec.taking_part}
    if combine := spec.combine:
        return MethodSettings(combine.method, weights, combine.parameters, combine.gram, combine.bounds)
    if spec.training.get(AGGREGATION) == NORMALIZE_THEN_SUM:
        return MethodSettings("gdpo", weights)
    return MethodSettings("weighted_sum", weights, {"scale_rewards": scale_rewards_of(spec)})


@dataclass(frozen=True)
class History:
    """Generations, gradients and learning rates of a finished run, by step."""

    folder: Path
    spec: ArmSpec
    scores: dict[int, np.ndarray]  # (N, K), raw, group by group; NaN where a component gave none
    groups: dict[int, np.ndarray]  # (N,) numbers of the completions' groups, by problem
    tokens: dict[int, np.ndarray]  # (N,) lengths of the completions
    gradients: dict[int, pa.Table]  # `gradients.parquet` by measured step: products of components alone, all layers
    rates: dict[int, float]  # learning rates, where they are known

    @property
    def components(self) -> list[str]:
        """Names of the K components, in the run's order."""
        return list(self.spec.weights)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the config, or else TRL's default."""
        return float(self.spec.training.get("learning_rate", TRL_LEARNING_RATE))


def read_history(folder: str | Path) -> History:
    """Read a finished run; a StudyError says which file is missing or damaged, or that steps cannot be told apart."""
    folder = Path(folder)
    record = folder / "run.json"
    if not record.is_file():
        raise StudyError(f"{record}: there is no such file; name the folder of a finished run")
    spec = ArmSpec.read(read_object(record, rerun_of(folder)).get("spec"), f"{record}: spec")
    rollouts = read_rollouts(folder / "rollouts.parquet", list(spec.weights), ["tokens"])
    steps = rollouts["generation_step"].to_numpy()
    generations = {int(step): rollouts[steps == step] for step in np.unique(steps)}
    _check_generations(spec, generations, folder)
    columns = [f"score_{name}" for name in spec.weights]
    return History(
        folder,
        spec,
        {step: batch[columns].to_numpy(dtype=float) for step, batch in generations.items()},
        {step: batch.groupby("problem_id").ngroup().to_numpy() for step, batch in generations.items()},
        {step: batch["tokens"].to_numpy() for step, batch in generations.items()},
        _gradients(folder / "gradients.parquet"),
        _rates(folder / "metrics.parquet"),
    )


def _check_generations(spec: ArmSpec, generations: Mapping[int, pd.DataFrame], folder: Path) -> None:
    """Refuse a run that makes several generations in a step, by its settings or by its rows."""
    sizes = BatchSizes.of(spec.training, spec.process_count)
    if sizes.generated < sizes.accumulation or any(len(batch) > sizes.completions for batch in generations.values()):
        raise StudyError(f"{folder}: its steps have several generations each; methods cannot be replayed on such a run")


def _gradients(path: Path) -> dict[int, pa.Table]:
    if not path.is_file():
        return {}
    with damage_reported(path):
        table = pq.read_table(path, filters=[("layer", "=", ALL_LAYERS), ("definition", "=", "alone")])
    steps = np.asarray(table["step"])
    return {int(step): table.filter(pa.array(steps == step)) for step in np.unique(steps)}


def _rates(path: Path) -> dict[int, float]:
    if not path.is_file() or not {"step", "learning_rate"} <= {*column_names(path)}:
        return {}
    logged = read_parquet(path, ["step", "learning_rate"]).dropna()
    return {int(step): float(rate) for step, rate in zip(logged["step"], logged["learning_rate"], strict=True)}


@dataclass(frozen=True)
class Replayed:
    """What a method gave each generation by step: (N, K) shares of advantages, and (K,) weights, NaN without one."""

    shares: dict[int, np.ndarray]
    weights: dict[int, np.ndarray]


def replay(history: History, settings: MethodSettings) -> Replayed:
    """Let a method combine all generations of a run in order; refused where a component does not score them."""
    unknown = [name for name in settings.weights if name not in history.components]
    if unknown:
        raise StudyError(f"{history.folder}: {unknown[0]} does not score its completions; leave {settings.method} out")
    combination = CombinationOfRun(load_method(settings.method, started_in()), settings, settings.weights)
    places = [history.components.index(name) for name in combination.names]
    replayed, rate = Replayed({}, {}), history.learning_rate
    for step in sorted({*history.scores, *history.gradients}):
        rate = history.rates.get(step, rate)
        if settings.gram == SAME_STEP and step in history.gradients:
            combination.see(history.gradients[step])
        if step in history.scores:
            scores, shares = history.scores[step], np.zeros(history.scores[step].shape)
            context = history.groups[step], history.tokens[step], step - 1, rate  # steps done before this one
            shares[:, places] = combination.component_advantages(scores[:, places], *context)
            weights = np.full(len(history.components), np.nan)
            weights[places] = combination.table(step)["weight"].to_pandas()
            replayed.shares[step], replayed.weights[step] = shares, weights
        if settings.gram != SAME_STEP and step in history.gradients:
            combination.see(history.gradients[step])
    return replayed


#: Rounding: a difference of two effects that is at most this share of their sizes counts as 0.
ROUNDING = 1e-9


@dataclass(frozen=True)
class OfflineComparison:
    """What M methods would have done at T measured steps of S runs with K components; NaN where a step is not known.

    `effects` are those of a step on each component's expected score on other prompts, per unit of the step's length
    (`effects_on_other_prompts`). In `products` and `effects` the step that was trained comes last, after the methods'.
    """

    methods: list[str]  # labels
    components: list[str]
    steps: list[int]  # measured steps that were read in any run
    products: np.ndarray  # (S, T, M + 1, M + 1) inner products of steps
    effects: np.ndarray  # (S, T, M + 1, K); also NaN where a method makes no step
    weights: np.ndarray  # (S, T, M, K); also NaN where a method has none
    left_out: Counter[str]  # numbers of measured steps that nothing can be said about, by reason
    confidence: float  # of the intervals

    @property
    def estimates(self) -> pd.DataFrame:
        """Rows (method, quantity, component) with intervals by Student's t over seeds, or over the steps of one seed.

        Cosine and length leave out products between micro-batches, which are not stored; their component is null.

        - cosine: between the method's step and the run's own, as in `similarity_by_arm`.
        - length: root mean square length of the method's steps over that of the run's own.
        - weight: the method's weight, mean over steps; no row where it has none.
        - effect: of the method's step per unit of its length, mean over steps.
        - gain: this effect less that of the run's own step.
        """
        effects, of_trained = self.effects[:, :, :-1], self.effects[:, :, -1:]
        parts = [
            self._rows("cosine", _cosines(self.products, self.confidence), [None]),
            self._rows("length", _lengths(self.products, self.confidence), [None]),
            self._rows("weight", self._means(self.weights), self.components),
            self._rows("effect", self._means(effects), self.components),
            self._rows("gain", self._means(_differences(effects, of_trained)), self.components),
        ]
        table = pd.concat(parts)
        return table.sort_values("place", kind="stable").drop(columns="place").reset_index(drop=True)

    def _means(self, values: np.ndarray) -> Estimates:
        """Estimates of (S, T, M, K) values, methods first."""
        seeds, steps, *kinds = values.shape
        by_kind = np.moveaxis(values, (2, 3), (0, 1)).reshape(np.prod(kinds), seeds, steps)
        return means_over_steps_and_seeds(by_kind, self.confidence)

    def _rows(self, quantity: str, found: Estimates, components: Sequence[str | None]) -> pd.DataFrame:
        known = ~np.isnan(self.products[:, :, -1, -1])  # of the run's own step
        places = np.repeat(np.arange(len(self.methods)), len(components))
        labels = {"place": places, "method": np.array(self.methods, dtype=object)[places], "quantity": quantity}
        labels["component"] = np.tile(np.array(components, dtype=object), len(self.methods))
        counts = {"seeds": int(known.any(axis=1).sum()), "steps": int(known.any(axis=0).sum())}
        table = pd.DataFrame(labels | found._asdict() | counts)
        return table.dropna(subset="estimate") if quantity == "weight" else table


def methods_offline(
    folders: str | Path | Sequence[str | Path],
    methods: Mapping[str, MethodSettings],
    *,
    confidence: float = 0.95,
    most_steps: int | None = None,
) -> OfflineComparison:
    """Compute the steps that methods would have taken at the measured steps of runs.

    `folders` are those of finished runs of one arm, one a seed. `methods` are by labels of your choice. A method that
    uses gradients needs its `gram`, as an arm's default does not apply. A method's state goes from generation to
    generation as in training.

    `confidence` is that of the intervals. Of a run's measured steps at most `most_steps` are used, evenly spread. A
    StudyError is raised where runs or methods are missing, a run's record is missing or its Gram matrices are damaged,
    where a method cannot be loaded or replayed, and where the runs have different components.
    """
    histories = [read_history(folder) for folder in ([folders] if isinstance(folders, str | Path) else folders)]
    if not histories or not methods:
        raise StudyError("methods_offline: no runs or no methods; give a finished run's folder and a method, or more")
    components = histories[0].components
    for history in histories:
        if history.components != components:
            raise StudyError(f"{history.folder}: scored by other components than {histories[0].folder}")
    by_run, left_out = [], Counter[str]()
    for history in histories:
        steps, refused = answers_of_run(history, methods, most_steps)
        by_run.append(steps)
        left_out.update(refused)
    return _stacked(by_run, list(methods), components, left_out, confidence)


#: At a step: products (M + 1, M + 1), effects (M + 1, K) and weights (M, K).
AtStep = tuple[np.ndarray, np.ndarray, np.ndarray]


def answers_of_run(
    history: History, methods: Mapping[str, MethodSettings], most_steps: int | None
) -> tuple[dict[int, AtStep], Counter[str]]:
    """Answers of all methods by measured step, and how many steps were left out, by reason."""
    replayed: list[Replayed] = []
    steps, refused = sorted(history.gradients), Counter[str]()
    steps = steps if most_steps is None else spread_steps(steps, most_steps)
    found: dict[int, AtStep] = {}
    stored = MeasuredRun(history.folder, steps, history.components)
    for step in steps:
        measured = read_step(stored, step)
        if isinstance(measured, str):
            refused[measured] += 1
        else:
            replayed = replayed or [replay(history, method) for method in methods.values()]  # may be refused
            found[step] = answers_at_step(measured, replayed)
    return found, refused


def answers_at_step(measured: MeasuredStep, replayed: Sequence[Replayed]) -> AtStep:
    """What the methods' steps would have been at a measured step, with the weights of its last generation."""
    generations = np.unique(measured.completions.step)
    shares = [np.concatenate([each.shares[int(step)] for step in generations]) for each in replayed]
    shares.append(measured.own_shares)
    totals = np.array([of_method.sum(axis=1) for of_method in shares])  # (M + 1, N)
    weights = np.array([each.weights[int(generations[-1])] for each in replayed])
    effects = effects_on_other_prompts(measured, shares)
    return products_of_steps(measured, totals), effects, weights


def _stacked(
    by_run: list[dict[int, AtStep]],
    methods: list[str],
    components: list[str],
    left_out: Counter[str],
    confidence: float,
) -> OfflineComparison:
    """Answers of all runs in arrays."""
    steps = sorted(set().union(*by_run))
    rows, columns = len(methods), len(components)
    shapes = ((rows + 1, rows + 1), (rows + 1, columns), (rows, columns))
    products, effects, weights = (np.full((len(by_run), len(steps), *shape), np.nan) for shape in shapes)
    for run, found in enumerate(by_run):
        for step, parts in found.items():
            for array, part in zip((products, effects, weights), parts, strict=True):
                array[run, steps.index(step)] = part
    return OfflineComparison(methods, components, steps, products, effects, weights, left_out, confidence)


def _cosines(products: np.ndarray, confidence: float) -> Estimates:
    """Cosines of the methods' steps to the run's own: mean products over the root of the mean squares, by seed."""
    squares = np.moveaxis(np.diagonal(products, axis1=2, axis2=3), 2, 0)  # (M + 1, S, T)
    methods, own = squares[:-1], np.broadcast_to(squares[-1:], squares[:-1].shape)
    by_seed, by_step = ratios(np.moveaxis(products[:, :, :-1, -1], 2, 0), np.stack([methods, own]))
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
    return over_seeds(ratio[..., 0], influence, confidence).clipped(0, np.inf)


def _differences(effects: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Effects less those of other steps, (S, T, M, K); 0 where the difference is rounding."""
    differences = effects - others
    return np.where(np.abs(differences) <= ROUNDING * (np.abs(effects) + np.abs(others)), 0.0, differences)
