"""Measured steps: what a run stored of them, and inner products of gradients that follow for any weights.

At a measured step (each n-th, by `gradients.every`) a run compares the components' gradients, and stores the Gram
matrices: inner products of the gradients of its completions. The tables of gradients, `what_if` and `methods_offline`
read such steps here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.analysis.reading import damage_reported
from reward_ablation.analysis.runs import rerun_of
from reward_ablation.combination.normalisation import SUM_THEN_NORMALIZE, nan_mean, shares
from reward_ablation.config.sections.training import AGGREGATION
from reward_ablation.gram.similarity import ALL_LAYERS, Block
from reward_ablation.gram.store import StoredBlock, StoredGrams
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Added to standard deviations by TRL before dividing.
EPSILON = 1e-4

#: Family of the rows whose advantage acts on a whole completion, on policy.
ALL_TOKENS = "all_tokens"

#: Columns that identify a completion in `rollouts.parquet`; its column `step` is here generation_step.
COMPLETION = ["generation_step", "problem_id", "rollout"]


@dataclass(frozen=True)
class Completions:
    """N completions of a run with K components, group by group; arrays, as pandas takes longer than the arithmetic."""

    step: np.ndarray  # (N,) step that generated the completion
    group: np.ndarray  # (N,) number of its group
    scores: np.ndarray  # (N, K), NaN where a component gave none
    advantages: np.ndarray  # (N, K) stored shares of the advantages

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: np.ndarray) -> Completions:
        # In the layout of pandas, as with another one sums would be rounded otherwise.
        scores, advantages = (np.asfortranarray(values[rows]) for values in (self.scores, self.advantages))
        return Completions(self.step[rows], self.group[rows], scores, advantages)


@dataclass(frozen=True)
class MeasuredStep:
    """The stored data of one measured step; `completions` are all of the batches from which it took completions."""

    step: int
    weights: dict[str, float]  # of the run, for all its components
    scale_rewards: str
    aggregation: str
    blocks: list[StoredBlock]  # one for each micro-batch and process
    completions: Completions
    method: str | None = None  # method of combination; None where TRL combined the scores
    places: Sequence[np.ndarray] = ()  # by block: (R,) index in `completions` of the completion of each Gram row
    run: MeasuredRun | None = None  # where the step comes from

    @property
    def components(self) -> list[str]:
        """Names of the components, in the order of the columns of `completions`."""
        return list(self.weights)

    @cached_property
    def alone(self) -> list[Block]:
        """Gram matrices by layer; the vectors are the gradients of each component alone, with weight 1 and no other."""
        each_alone = enumerate(self.shares(np.eye(len(self.components))))
        return self.blocks_with(np.stack([shares[:, column] for column, shares in each_alone], axis=1).T)

    @cached_property
    def square(self) -> float | None:
        """Squared length of the run's own step over all pairs of completions; None if a single block has them all."""
        return None if self.run is None or len(self.blocks) == 1 else self.run.squares.get(self.step, np.nan)

    @cached_property
    def summed(self) -> list[np.ndarray]:
        """By block: (R, R) Gram matrices summed over layers."""
        return [block.grams.sum(axis=0) for block in self.blocks]

    @cached_property
    def _batches(self) -> list[tuple[slice, int]]:
        """Rows of each batch, and the size of its groups."""
        groups = self.completions.group
        _, first = np.unique(self.completions.step, return_index=True)
        ends = [*first[1:], len(groups)]
        return [
            (slice(start, end), int((end - start) // (groups[end - 1] - groups[start] + 1)))
            for start, end in zip(first, ends, strict=True)
        ]

    @cached_property
    def scores(self) -> list[tuple[np.ndarray, int]]:
        """For each batch: (N, K) scores, and the size of a group."""
        return [(self.completions.scores[rows], size) for rows, size in self._batches]

    def shares(self, weights: np.ndarray) -> list[np.ndarray]:
        """Components' shares of all completions' advantages: an (N, K) array for each of (P, K) weight vectors."""
        batches = [(scores, np.repeat(np.arange(len(scores) // size), size)) for scores, size in self.scores]
        return [
            np.concatenate([shares(*batch, vector, EPSILON, self.aggregation, self.scale_rewards) for batch in batches])
            for vector in weights
        ]

    @cached_property
    def own_shares(self) -> np.ndarray:
        """(N, K) shares of the advantages that the run was trained on; stored ones where a method combined scores."""
        if self.method is None:
            return self.shares(np.array([list(self.weights.values())], dtype=float))[0]
        return self.completions.advantages

    def blocks_with(self, vectors: np.ndarray) -> list[Block]:
        """Gram matrices with (V, N) coefficients as vectors; a block's `completions` are row numbers of the step's."""
        return [
            Block(stored.grams, vectors[:, rows], rows, self.completions.group[rows])
            for stored, rows in zip(self.blocks, self.places, strict=True)
        ]


def scale_rewards_of(spec: ArmSpec) -> str:
    """Whose standard deviation TRL divides the advantages of a run by: group, batch or none."""
    scale = spec.training.get("scale_rewards", "group")
    return str({True: "group", False: "none"}.get(scale, scale))


class MeasuredRun:
    """What a run stored of some steps, each file read once; `components` may give its components in another order."""

    def __init__(self, folder: Path, steps: Collection[int], components: Sequence[str] = ()):
        self.folder = folder
        self._steps = steps
        self._components = components

    @cached_property
    def _grams(self) -> StoredGrams:
        return StoredGrams(self.folder, self._steps)

    @cached_property
    def squares(self) -> dict[int, float]:
        """Squared lengths of the run's own steps over all pairs of completions, also of different blocks."""
        file, columns = self.folder / "gradients.parquet", ["step", "component_a", "component_b", "dot"]
        with damage_reported(file):
            filters = [("layer", "=", ALL_LAYERS), ("definition", "=", "share")]
            table = pq.read_table(file, columns=columns, filters=filters).to_pandas()
        times = np.where(table["component_a"] == table["component_b"], 1, 2)  # each pair has one row
        return (times * table["dot"]).groupby(table["step"]).sum(skipna=False).to_dict()

    @cached_property
    def _spec(self) -> ArmSpec:
        record = self.folder / "run.json"
        return ArmSpec.read(load_json(record.read_text())["spec"], f"{record}: spec")

    @cached_property
    def _weights(self) -> dict[str, float]:
        return {name: self._spec.weights[name] for name in self._components or self._spec.weights}

    @cached_property
    def _rollouts(self) -> tuple[pd.DataFrame, set[int]]:
        steps = {*self._grams.rows["generation_step"]}
        return _sorted_rollouts(self.folder / "rollouts.parquet", steps, list(self._weights))

    @cached_property
    def _completions(self) -> Completions:
        rollouts = self._rollouts[0]
        of_step, problems = (rollouts[name].to_numpy() for name in COMPLETION[:2])
        begins = (of_step[1:] != of_step[:-1]) | (problems[1:] != problems[:-1])
        scores, advantages = (
            rollouts[[f"{kind}_{name}" for name in self._weights]].to_numpy(dtype=float)
            for kind in ("score", "advantage")
        )
        return Completions(of_step, np.concatenate([[0], np.cumsum(begins)]), scores, advantages)

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
        """One of the steps; errors are those of `what_if.read_measured_step`."""
        blocks, families = zip(*map(_without_kl, self._grams[step]), strict=True)
        others = sorted(set().union(*families) - {ALL_TOKENS})
        if others:
            raise StudyError(
                f"{self.folder}: step {step} has gradients of {', '.join(others)}; other weights can be asked about "
                f"only where every gradient is one of {ALL_TOKENS}"
            )
        spec, completions = self._spec, self._completions
        generation_steps = set().union(*(block.rows["generation_step"] for block in blocks))
        if generation_steps & self._rollouts[1]:
            raise _torn_groups(self.folder / "rollouts.parquet")
        places = [self._places[block.rows.index] for block in blocks]
        if any((of_block < 0).any() for of_block in places):
            raise StudyError(f"step {step}: some of its completions are not in rollouts.parquet")
        rows = np.flatnonzero(np.isin(completions.step, [*generation_steps]))
        measured = MeasuredStep(
            step=step,
            weights=self._weights,
            scale_rewards=scale_rewards_of(spec),
            aggregation=spec.training.get(AGGREGATION, SUM_THEN_NORMALIZE),
            blocks=[*blocks],
            completions=completions[rows],
            method=spec.combine.method if spec.combine else None,
            places=[np.searchsorted(rows, of_block) for of_block in places],
            run=self,
        )
        own, stored = measured.own_shares, measured.completions.advantages
        # Runs of earlier versions have large parts that cancel where the totals of a group are equal.
        cancel = np.abs(stored.sum(axis=1)) <= 1e-3 * np.abs(stored).max(axis=1, initial=0.0)
        stored = np.where(((own == 0).all(axis=1) & cancel)[:, None], 0.0, stored)
        if not np.allclose(own, stored, rtol=1e-3, atol=1e-3):
            raise StudyError(
                f"{self.folder}: the advantages of step {step} do not follow from its scores, as with several batches "
                "of rollouts in one step under scale_rewards: batch; other weights cannot be asked about"
            )
        return measured


def _without_kl(block: StoredBlock) -> tuple[StoredBlock, set[str]]:
    """A block without the rows of the KL term, and the families of its rows."""
    families = {*block.rows["family"]}
    return (block.without("kl"), families - {"kl"}) if "kl" in families else (block, families)


def read_rollouts(path: Path, components: list[str], more: Sequence[str]) -> pd.DataFrame:
    """Completions with columns `more`, group by group; refused where groups of a step cannot be told apart."""
    with damage_reported(path):
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


def gradients_of_scores(measured: MeasuredStep, blocks: list[Block]) -> list[np.ndarray]:
    """Gradient of each component's expected score as (K, R) coefficients of the rows of each block."""
    # A row is -token_weight times the gradient of the completion's log-probability.
    baselined = np.concatenate([leave_one_out_scores(scores, size) for scores, size in measured.scores]).T
    weights = [stored.rows["token_weight"].to_numpy(dtype=float) for stored in measured.blocks]
    seen = sum((of_block > 0).sum() for of_block in weights)
    inverse = [np.divide(1, of_block, out=np.zeros_like(of_block), where=of_block > 0) for of_block in weights]
    return [
        -baselined[:, block.completions] * of_block / max(seen, 1)
        for block, of_block in zip(blocks, inverse, strict=True)
    ]


def leave_one_out_scores(scores: np.ndarray, num_generations: int) -> np.ndarray:
    """Score of each completion less the mean score of the others in its group; with groups of one, in the batch.

    Times the gradient of the log-probability it is an unbiased estimate of the gradient of the expected score (Kool,
    van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019). `scores` are (N, K), NaN where a
    component gave none; each `num_generations` rows are a group. 0 without a score, or without another one.
    """
    size = num_generations if num_generations > 1 else len(scores)
    groups = scores.reshape(len(scores) // size, size, scores.shape[1])
    known = (~np.isnan(groups)).sum(axis=1, keepdims=True)
    from_mean = groups - nan_mean(groups, 1)
    return np.nan_to_num(from_mean * known / np.where(known > 1, known - 1, np.nan), nan=0.0).reshape(scores.shape)


def read_step(run: MeasuredRun, step: int) -> MeasuredStep | str:
    """Read a step, or return why nothing can be said about other weights, in words that do not name run and step."""
    try:
        return run.step(step)
    except StudyError as error:
        return str(error).partition(": ")[2].replace(f"step {step}", "a step")
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        reason = str(error).splitlines()[0].rstrip(".")
        again = rerun_of(run.folder)
        raise StudyError(f"{run.folder}: its stored Gram matrices cannot be read ({reason}); {again}") from error


def effects_on_other_prompts(measured: MeasuredStep, shares: list[np.ndarray]) -> np.ndarray:
    """What steps under some weights do to the components' expected scores on prompts that the steps did not see.

    Per unit of the step's length: <grad J_k, step> / |step|. The product is over pairs of completions of different
    prompts, divided by their share of all pairs, and so is an unbiased estimate for the expected step. `shares` has the
    (N, K) `measured.shares` under each of P weight vectors; the result is (P, K), NaN without a step or two prompts.

    Products between blocks are not stored. The length of the run's own step is, and other steps are taken to exceed
    their length within blocks by the same factor.
    """
    totals = np.array([of_weights.sum(axis=1) for of_weights in shares])  # (P, N)
    effects = np.zeros((len(totals), len(measured.components)))
    blocks = measured.alone
    for block, gram, scores in zip(blocks, measured.summed, gradients_of_scores(measured, blocks), strict=True):
        steps = -totals[:, block.completions]
        apart = gram * (block.prompts[:, None] != block.prompts)
        effects += steps @ apart @ scores.T
    squares = np.diagonal(products_of_steps(measured, totals))
    if measured.square is not None:
        within = products_of_steps(measured, measured.own_shares.sum(axis=1)[None]).item()
        squares = squares * (measured.square / within if within > 0 else np.nan)
    known = sum(int((block.prompts[:, None] != block.prompts).sum()) for block in blocks)
    share = known / sum(len(block.prompts) for block in blocks) ** 2
    scale = np.sqrt(np.where(squares > 0, squares, np.nan)) * (share or np.nan)
    return effects / scale[:, None]


def products_of_steps(measured: MeasuredStep, totals: np.ndarray) -> np.ndarray:
    """Inner products (P, P) of steps with (P, N) advantages, over the pairs of completions of the same block."""
    found = np.zeros((len(totals), len(totals)))
    for rows, gram in zip(measured.places, measured.summed, strict=True):
        found += totals[:, rows] @ gram @ totals[:, rows].T
    return found


def spread_steps(steps: list[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly spread, with the first and, from two on, the last."""
    if len(steps) <= most:
        return steps
    return [steps[number] for number in np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))]
