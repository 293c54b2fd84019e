"""What one step of training would have been under other weights: from the stored Gram matrices, without a model.

The similarities of the components' shares, and what a small step along the gradient does to each component's
expected score, both under any weights: also on components that the run did not train on::

    measured = read_measured_step(runs / "equal-1a2b3c4d/seed1", 50)
    what_if({"correctness": 1, "length": 0.5}, measured).effect
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.analysis.gradients.advantages import component_shares, leave_one_out_scores
from reward_ablation.gram.similarity import (
    ALL_LAYERS,
    PARTS,
    ROUNDING,
    Block,
    gradient_rows,
    jackknife_margin,
    parts_by_prompt,
    with_all_layers,
    without_each_prompt,
)
from reward_ablation.gram.store import StoredBlock, StoredGrams
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Name of the gradient that all shares add up to; no component may have this name.
TOTAL = "total"

#: Family of the rows whose advantage acts on a whole completion, on policy.
ALL_TOKENS = "all_tokens"

#: Columns that identify a completion in `rollouts.parquet`; its column `step` is here generation_step.
COMPLETION = ["generation_step", "problem_id", "rollout"]


@dataclass(frozen=True)
class MeasuredStep:
    """The stored data of one measured step of one run.

    `scale_rewards` and `aggregation` say how TRL made advantages of scores. `rollouts` has the completions of every
    batch that the step took completions from, group by group. Its columns are `COMPLETION`, and score_<component> and
    advantage_<component> for each component.
    """

    step: int
    weights: dict[str, float]  # of the run, for all its components
    scale_rewards: str
    aggregation: str
    blocks: list[StoredBlock]  # one for each micro-batch and process
    rollouts: pd.DataFrame
    method: str | None = None  # method of combination; None where TRL combined the scores
    places: Sequence[np.ndarray] = ()  # by block: (R,) row numbers in `rollouts` of the rows' completions

    @property
    def components(self) -> list[str]:
        """Names of the components, in the run's order."""
        return list(self.weights)

    @cached_property
    def _groups(self) -> np.ndarray:
        """(N,) number of each completion's group."""
        columns = [self.rollouts[name].to_numpy() for name in COMPLETION[:2]]
        starts = [values[1:] != values[:-1] for values in columns]
        return np.concatenate([[0], np.cumsum(starts[0] | starts[1])])

    @cached_property
    def _batches(self) -> list[tuple[slice, int]]:
        """Rows of each batch, and the size of its groups."""
        _, first = np.unique(self.rollouts["generation_step"].to_numpy(), return_index=True)
        ends = [*first[1:], len(self.rollouts)]
        groups = self._groups
        return [
            (slice(start, end), int((end - start) // (groups[end - 1] - groups[start] + 1)))
            for start, end in zip(first, ends, strict=True)
        ]

    @cached_property
    def scores(self) -> list[tuple[np.ndarray, int]]:
        """For each batch: (N, K) scores, and the size of a group."""
        return self._by_batch("score_")

    @cached_property
    def advantages(self) -> list[tuple[np.ndarray, int]]:
        """For each batch: (N, K) stored shares of the advantages, and the size of a group."""
        return self._by_batch("advantage_")

    def _by_batch(self, prefix: str) -> list[tuple[np.ndarray, int]]:
        values = np.asfortranarray(self.rollouts[[prefix + name for name in self.components]], dtype=float)
        return [(values[rows], size) for rows, size in self._batches]

    def shares(self, weights: np.ndarray) -> list[np.ndarray]:
        """(N, K) shares of the advantages of all `rollouts` under each of (P, K) weight vectors."""
        how = self.scale_rewards, self.aggregation
        return [
            np.concatenate([component_shares(scores, vector, size, *how) for scores, size in self.scores])
            for vector in weights
        ]

    @cached_property
    def own_shares(self) -> np.ndarray:
        """(N, K) shares of the advantages that the run was trained on; stored ones where a method combined scores."""
        if self.method is None:
            return self.shares(np.array([list(self.weights.values())], dtype=float))[0]
        return np.concatenate([advantages for advantages, _ in self.advantages])

    def blocks_with(self, vectors: np.ndarray) -> list[Block]:
        """Gram matrices with (V, N) coefficients of the rollouts as vectors.

        The blocks' `completions` are row numbers of `rollouts`.
        """
        return [
            Block(stored.grams, vectors[:, rows], rows, self._groups[rows])
            for stored, rows in zip(self.blocks, self.places, strict=True)
        ]


@dataclass(frozen=True)
class WhatIf:
    """Answers for one weight vector.

    `similarity` has the columns of `gradients.parquet`: the components' shares under the weights, and their sum,
    `total`. `effect` has rows (layer, component) and these columns:

    - effect: change of the component's expected score per unit of the learning rate of a step of plain gradient
      descent, to first order. It is the inner product of the gradient of the expected score and the step.
    - self, same_prompt, cross_prompt: parts of the effect, of completions on themselves, on others of their prompt, and
      on other prompts.
    - per_length, per_length_low, per_length_high: the effect per unit of the length of the step in all layers, with a
      95 % interval (delete one prompt). Comparable between weights; optimisers that rescale, such as Adam, decide the
      length themselves.
    """

    similarity: pd.DataFrame
    effect: pd.DataFrame


def read_measured_step(folder: str | Path, step: int) -> MeasuredStep:
    """Read what a run stored of one step in its folder.

    A StudyError is raised where the step was not measured, or where the stored data do not say what other advantages
    would have done. The latter is so where there are rows of other families than all_tokens (a placement on some
    tokens, clipped ratios), and where advantages do not follow from the scores. It is also raised where completions of
    the step are missing in rollouts.parquet, or their groups cannot be told apart.
    """
    return MeasuredRun(Path(folder), [step]).step(step)


class MeasuredRun:
    """What a run stored of some measured steps. Each of its files is read once."""

    def __init__(self, folder: Path, steps: Collection[int]):
        self.folder = folder
        self._steps = steps

    @cached_property
    def _grams(self) -> StoredGrams:
        return StoredGrams(self.folder, self._steps)

    @cached_property
    def _spec(self) -> ArmSpec:
        record = self.folder / "run.json"
        return ArmSpec.read(load_json(record.read_text())["spec"], f"{record}: spec")

    @cached_property
    def _rollouts(self) -> tuple[pd.DataFrame, set[int]]:
        steps = {*self._grams.rows["generation_step"]}
        return _sorted_rollouts(self.folder / "rollouts.parquet", steps, list(self._spec.weights))

    @cached_property
    def _places(self) -> np.ndarray:
        """Row number in `_rollouts` of the completion of each row of `_grams`; -1 where the completion is not there."""
        rollouts, rows = (
            zip(*(table[name].tolist() for name in COMPLETION), strict=True)
            for table in (self._rollouts[0], self._grams.rows)
        )
        row_of = {completion: row for row, completion in enumerate(rollouts)}
        return np.array([row_of.get(completion, -1) for completion in rows], dtype=int)

    def step(self, step: int) -> MeasuredStep:
        """One of the steps; errors are those of `read_measured_step`."""
        blocks = [block.without("kl") for block in self._grams[step]]
        families = sorted(set().union(*(block.rows["family"] for block in blocks)) - {ALL_TOKENS})
        if families:
            raise StudyError(
                f"{self.folder}: step {step} has gradients of {', '.join(families)}; other weights can be asked about "
                f"only where every gradient is one of {ALL_TOKENS}"
            )
        spec, (rollouts, torn) = self._spec, self._rollouts
        generation_steps = set().union(*(block.rows["generation_step"] for block in blocks))
        if generation_steps & torn:
            raise _torn_groups(self.folder / "rollouts.parquet")
        places = [self._places[block.rows.index] for block in blocks]
        if any((of_block < 0).any() for of_block in places):
            raise StudyError(f"step {step}: some of its completions are not in rollouts.parquet")
        rows = np.flatnonzero(np.isin(rollouts["generation_step"].to_numpy(), [*generation_steps]))
        measured = MeasuredStep(
            step=step,
            weights=spec.weights,
            scale_rewards=spec.training.get("scale_rewards", "group"),
            aggregation=spec.training.get("multi_objective_aggregation", "sum_then_normalize"),
            blocks=blocks,
            rollouts=rollouts.iloc[rows],
            method=spec.combine.method if spec.combine else None,
            places=[np.searchsorted(rows, of_block) for of_block in places],
        )
        stored = np.concatenate([advantages for advantages, _ in measured.advantages])
        if not np.allclose(measured.own_shares, stored, rtol=1e-3, atol=1e-3):
            raise StudyError(
                f"{self.folder}: the advantages of step {step} do not follow from its scores, as with several batches "
                "of rollouts in one step under scale_rewards: batch; other weights cannot be asked about"
            )
        return measured


def read_rollouts(path: Path, components: list[str], more: Sequence[str]) -> pd.DataFrame:
    """All completions, group by group; refused unless all groups of a step have the same size.

    `more` has the names of further columns.
    """
    rollouts, torn = _sorted_rollouts(path, None, components, more)
    if torn:
        raise _torn_groups(path)
    return rollouts


def _torn_groups(path: Path) -> StudyError:
    return StudyError(f"{path}: a problem occurs twice among the rollouts of a step; groups cannot be told apart")


def _sorted_rollouts(
    path: Path, generation_steps: Collection[int] | None, components: list[str], more: Sequence[str] = ()
) -> tuple[pd.DataFrame, set[int]]:
    """Completions of some steps, or of all, group by group, and the steps whose groups cannot be told apart."""
    names = [f"{column}_{name}" for column in ("score", "advantage") for name in components]
    filters = None if generation_steps is None else [("step", "in", [*generation_steps])]
    table = pq.read_table(path, columns=["step", "problem_id", "rollout", *names, *more], filters=filters)
    rollouts = table.to_pandas().rename(columns={"step": "generation_step"}).astype({"problem_id": object})
    rollouts = rollouts.sort_values(COMPLETION, kind="stable", ignore_index=True)
    sizes = rollouts.groupby(COMPLETION[:2])["rollout"].agg(["size", "nunique"])
    uneven = sizes["size"].groupby("generation_step").nunique() > 1
    twice = (sizes["size"] != sizes["nunique"]).groupby("generation_step").any()
    return rollouts, {*uneven.index[uneven | twice]}


def what_if(weights: Mapping[str, float], measured: MeasuredStep) -> WhatIf:
    """Similarities and first-order effects of one step under other weights.

    The advantages are those that TRL would have given the same completions. The effect of a step on the expected
    score of component k is <grad J_k, -g>, with g the gradient of the loss under `weights` and grad J_k the mean over
    completions of (score - mean score of the others of the group) * grad log-probability.

    The numbers are of first order, hold for the one step whose completions and policy they come from, and cover the
    policy term only. Terms between blocks (micro-batches, processes) are not in the file: the numbers are exact for
    steps of one block, and otherwise lack the terms between nearly orthogonal gradients. The same completions give both
    the step and its effect, so that `self` counts in the step's favour: completions that were scored become likelier.
    Only `cross_prompt` says what completions of one prompt do to other prompts. A completion that the loss masks out
    has no gradient and does not count.

    Components that `weights` does not name have weight 0. A StudyError is raised for an unknown component, and for a
    weight that is not a finite number.
    """
    check_weights(weights, measured.components)
    vector = np.array([float(weights.get(name, 0.0)) for name in measured.components])
    shares = measured.shares(vector[None])[0].T
    blocks = measured.blocks_with(np.concatenate([shares, shares.sum(axis=0, keepdims=True)]))
    layers = measured.blocks[0].layers
    names = [("share", name) for name in [*measured.components, TOTAL]]
    similarity = gradient_rows(measured.step, layers, names, blocks).to_pandas()
    return WhatIf(similarity, effects(measured, layers, blocks))


def check_weights(weights: Mapping[str, float], components: list[str]) -> None:
    """Refuse weights of components that the run does not have, and weights that are not finite numbers."""
    for name, weight in weights.items():
        if name not in components:
            raise StudyError(f"weights: unknown component {name!r}; components here: {', '.join(components)}")
        if not math.isfinite(weight):
            raise StudyError(f"weights.{name}: {weight} is not a finite number")


def gradients_of_scores(measured: MeasuredStep, blocks: list[Block]) -> list[np.ndarray]:
    """Gradient of each component's expected score as (K, R) coefficients of the rows of each block.

    A row is -token_weight times the gradient of the completion's log-probability.
    """
    baselined = np.concatenate([leave_one_out_scores(scores, size) for scores, size in measured.scores]).T
    weights = [stored.rows["token_weight"].to_numpy(dtype=float) for stored in measured.blocks]
    seen = sum((of_block > 0).sum() for of_block in weights)
    inverse = [np.divide(1, of_block, out=np.zeros_like(of_block), where=of_block > 0) for of_block in weights]
    return [
        -baselined[:, block.completions] * of_block / max(seen, 1)
        for block, of_block in zip(blocks, inverse, strict=True)
    ]


def effects(measured: MeasuredStep, layers: list[str], blocks: list[Block]) -> pd.DataFrame:
    """Effects of a step along minus the last vector of `blocks`; columns as in `WhatIf`."""
    with_step = [
        Block(block.grams, np.concatenate([rows, -block.coefficients[-1:]]), block.completions, block.prompts)
        for block, rows in zip(blocks, gradients_of_scores(measured, blocks), strict=True)
    ]
    prompts, sizes = np.unique(np.concatenate([block.prompts for block in blocks]), return_counts=True)
    parts = with_all_layers(parts_by_prompt(with_step, slice(None), prompts), axis=1)
    total = parts.sum(axis=2)
    dots = total.sum(axis=0)
    left_dots = without_each_prompt(parts, total).sum(axis=0)
    square, left_squares = dots[:1, -1:, -1:], left_dots[:1, :, -1:, -1:]
    # A step that comes from one prompt alone has no direction without this prompt.
    left_squares = np.where(left_squares > ROUNDING * square[:, None], left_squares, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_length = dots[:, :-1, -1:] / np.sqrt(square)
        left_out = left_dots[:, :, :-1, -1:] / np.sqrt(left_squares)
        left_out *= (sizes.sum() / (sizes.sum() - sizes))[:, None, None]  # a mean over fewer completions
    margin = jackknife_margin(left_out)
    columns = {
        "effect": dots[:, :-1, -1],
        **{name: part[:, :-1, -1] for name, part in zip(PARTS, total, strict=True)},
        "per_length": per_length[..., 0],
        "per_length_low": (per_length - margin)[..., 0],
        "per_length_high": (per_length + margin)[..., 0],
    }
    names = [ALL_LAYERS, *layers]
    labels = {
        "layer": np.repeat(names, len(measured.components)),
        "component": np.tile(measured.components, len(names)),
    }
    return pd.DataFrame({**labels, **{name: values.ravel() for name, values in columns.items()}})
