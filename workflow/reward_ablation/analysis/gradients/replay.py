"""Advantages that a method of combination would have given a run's completions, generation by generation.

The method sees what it would have seen in training: the scores of all generations in their order, its own state, and
the Gram matrices of the steps that were measured before. The completions are those of the run's own policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from reward_ablation.analysis.gradients.measured_steps import read_rollouts, scale_rewards_of
from reward_ablation.combination.load import load_method
from reward_ablation.combination.normalisation import NORMALIZE_THEN_SUM
from reward_ablation.combination.of_run import CombinationOfRun, Source
from reward_ablation.config.sections.training import AGGREGATION
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.gram.similarity import ALL_LAYERS
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: TRL's default learning rate, for runs whose config and metrics have none.
LEARNING_RATE = 1e-6

#: The Gram matrix of the step itself.
SAME: Source = "same_step"


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
    if spec.combine:
        own = spec.combine
        return MethodSettings(own.method, weights, own.parameters, own.gram, own.bounds)
    if spec.training.get(AGGREGATION) == NORMALIZE_THEN_SUM:
        return MethodSettings("gdpo", weights)
    return MethodSettings("weighted_sum", weights, {"scale_rewards": scale_rewards_of(spec)})


@dataclass(frozen=True)
class History:
    """Generations, gradients and learning rates of a finished run, all by step."""

    folder: Path
    spec: ArmSpec
    scores: dict[int, np.ndarray]  # (N, K), raw, group by group; NaN where a component gave none
    groups: dict[int, np.ndarray]  # (N,) numbers of the completions' groups
    tokens: dict[int, np.ndarray]  # (N,) lengths of the completions
    gradients: dict[int, pa.Table]  # rows of `gradients.parquet` of measured steps: inner products over all layers
    rates: dict[int, float]  # learning rates, where they are known

    @property
    def components(self) -> list[str]:
        """Names of the K components, in the run's order."""
        return list(self.spec.weights)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the config, or else TRL's default."""
        return float(self.spec.training.get("learning_rate", LEARNING_RATE))


def read_history(folder: str | Path) -> History:
    """Read a finished run.

    A StudyError is raised where the record is missing, or a step has several generations, which the log of rollouts
    does not tell apart. It is also raised where the groups of a step cannot be told apart.
    """
    folder = Path(folder)
    record = folder / "run.json"
    if not record.is_file():
        raise StudyError(f"{record}: there is no such file; name the folder of a finished run")
    spec = ArmSpec.read(load_json(record.read_text())["spec"], f"{record}: spec")
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
    sizes = BatchSizes.of(spec.training, spec.process_count)
    if sizes.generated < sizes.accumulation or any(len(batch) > sizes.completions for batch in generations.values()):
        raise StudyError(f"{folder}: its steps have several generations each; methods cannot be replayed on such a run")


def _gradients(path: Path) -> dict[int, pa.Table]:
    if not path.is_file():
        return {}
    table = pq.read_table(path, filters=[("layer", "=", ALL_LAYERS), ("definition", "=", "alone")])
    steps = np.asarray(table["step"])
    return {int(step): table.filter(pa.array(steps == step)) for step in np.unique(steps)}


def _rates(path: Path) -> dict[int, float]:
    if not path.is_file() or not {"step", "learning_rate"} <= {*pq.read_schema(path).names}:
        return {}
    logged = pq.read_table(path, columns=["step", "learning_rate"]).to_pandas().dropna()
    return {int(step): float(rate) for step, rate in zip(logged["step"], logged["learning_rate"], strict=True)}


@dataclass(frozen=True)
class Replayed:
    """What a method gave each generation, by step.

    `shares` are (N, K) parts of the advantages, rows as in `History.scores`; `weights` are (K,), NaN where the method
    has none.
    """

    shares: dict[int, np.ndarray]
    weights: dict[int, np.ndarray]


def replay(history: History, asked: MethodSettings, root: Path = Path()) -> Replayed:
    """Let a method combine all generations of a run, in their order.

    A StudyError is raised where a component does not score the run's completions, and where `call.call_method` refuses
    arguments or result.
    """
    unknown = [name for name in asked.weights if name not in history.components]
    if unknown:
        raise StudyError(f"{history.folder}: {unknown[0]} does not score its completions; leave {asked.method} out")
    combination = CombinationOfRun(load_method(asked.method, root), asked, asked.weights)
    places = [history.components.index(name) for name in combination.names]
    replayed, rate = Replayed({}, {}), history.learning_rate
    for step in sorted({*history.scores, *history.gradients}):
        rate = history.rates.get(step, rate)
        if asked.gram == SAME and step in history.gradients:
            combination.see(history.gradients[step])
        if step in history.scores:
            scores, shares = history.scores[step], np.zeros(history.scores[step].shape)
            context = history.groups[step], history.tokens[step], step - 1, rate
            shares[:, places] = combination.component_advantages(scores[:, places], *context)
            weights = np.full(len(history.components), np.nan)
            weights[places] = combination.table(step)["weight"].to_pandas()
            replayed.shares[step], replayed.weights[step] = shares, weights
        if asked.gram != SAME and step in history.gradients:
            combination.see(history.gradients[step])
    return replayed
