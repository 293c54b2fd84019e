"""The measurements of one optimiser step, which the trainer adds up, and the tables that are written of them.

`recorder` knows a single micro-batch of a process (a block). Inner products of different blocks are added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from reward_ablation.gram.similarity import Block, gradient_rows
from reward_ablation.gram.store import gram_table, row_table
from reward_ablation.training.core.gradients.loss_derivatives import Family
from reward_ablation.training.core.gradients.recorder import SUMS, Measurement, add_up, layer_of, shape_of


@dataclass(frozen=True)
class Completion:
    """Which completion a row of a Gram matrix belongs to, by its keys in the rollout log."""

    generation_step: int
    problem_id: str
    rollout: int
    number: int  # of the completion, over all processes and batches of a run
    group: int  # number of its group


class StepMeasurement:
    """Measurements of one optimiser step on one process: one block per micro-batch.

    `vectors` gives definition (`alone` or `share`) and component of each of the V gradients. The optimiser takes the
    mean of the gradients of all `processes`, so a process's gradients count by 1 / `processes`.
    """

    def __init__(self, model: nn.Module, vectors: list[tuple[str, str]], processes: int):
        trained = {name: part for name, part in model.named_parameters() if part.requires_grad}
        # Parameters whose sums are fewer than their numbers; products of the others' sums are exact.
        self.folded = {name for name, part in trained.items() if math.prod(shape_of(part)) > SUMS}
        self.layers = list(dict.fromkeys(map(layer_of, trained)))
        self.vectors = vectors
        self.processes = processes
        self.clear()

    def clear(self) -> None:
        """Start the next step."""
        self.blocks: list[tuple[Block, list[tuple]]] = []  # each with its rows of the table `sample_gram_rows`
        self.sums: dict[str, Tensor] = {}  # by parameter, (V, M) folded gradients, added up over blocks
        self.inside: dict[str, Tensor] = {}  # by layer, (V, V) products of each block's sums within the block, added up
        self.whole: dict[str, Tensor] = {}  # by parameter, whole gradients of the components alone, a row each

    def add(
        self,
        measurement: Measurement,
        families: list[Family],
        completions: list[Completion],
        mask: Tensor,
        ratio: Tensor | None = None,
    ) -> None:
        """Add the block of a micro-batch of B completions; the families are in the order of the measurement's rows.

        `mask`, (B, T), marks their tokens. `ratio`, (B, T) or (B, 1), has importance ratios of vLLM's samples. The rows
        contain them. The labels and token weights that are stored leave them out, because an arm with any other weights
        of components would train on the same ratios.
        """
        if ratio is not None:
            mask = mask & (ratio > 0)
            families = [family.without(ratio) for family in families]
        # A family has no row for a completion that it serves under no way to clip.
        present = np.concatenate([family.serves.any(1).cpu().numpy() for family in families])
        grams = self._stacked(measurement.grams, len(present), len(present))
        tokens = mask.sum(1).clamp(min=1)
        rows = [
            (completion.generation_step, completion.problem_id, completion.rollout, label, weight / self.processes)
            for family in families
            for completion, label, weight in zip(
                completions, family.labels(mask), (-family.loss_derivatives.sum(1) / tokens).tolist(), strict=True
            )
        ]
        block = Block(
            grams=grams[:, present][:, :, present] / self.processes**2,
            coefficients=measurement.coefficients.cpu().double().numpy()[:, present],
            completions=np.array([completion.number for completion in completions] * len(families))[present],
            prompts=np.array([completion.group for completion in completions] * len(families))[present],
        )
        self.blocks.append((block, [row for row, is_here in zip(rows, present, strict=True) if is_here]))
        add_up(self.whole, measurement.vectors)
        sums = measurement.folded_vectors()
        add_up(self.sums, sums)
        add_up(self.inside, _grams_by_layer(sums))

    def tables(
        self, step: int, reduce: Callable[[Tensor], Tensor], gather: Callable[[list], list]
    ) -> dict[str, pa.Table]:
        """Tables of the step by the names of their files. Clears the measurement for the next step.

        `reduce` gives the mean of a tensor over the processes, and `gather` joins the lists of all processes.
        """
        blocks, rows = zip(*gather(self.blocks), strict=True)
        across = variance = None
        size = len(self.vectors)
        if self.sums:
            # Terms between blocks: the products of all blocks' sums together, less the products inside each block.
            sums = {name: reduce(part) for name, part in self.sums.items()}
            total = _grams_by_layer(sums)
            for layer, inside in self.inside.items():
                total[layer] -= reduce(inside) / self.processes  # they count by 1 / processes², as in `add`
            across = self._stacked(total, size, size)
            folded = {name: sums[name] for name in sums if name in self.folded}
            variance = self._stacked(folding_variance(folded), size, size)
        tables = {
            "gradients": gradient_rows(step, self.layers, self.vectors, list(blocks), across, variance),
            "sample_grams": pa.concat_tables(
                gram_table(step, number, self.layers, block.grams) for number, block in enumerate(blocks)
            ),
            "sample_gram_rows": pa.concat_tables(
                row_table(step, number, *zip(*row, strict=True)) for number, row in enumerate(rows)
            ),
        }
        self.clear()
        return tables

    def _stacked(self, by_layer: dict[str, Tensor], *shape: int) -> np.ndarray:
        """One array of the tensors of all layers; zeros for a layer without a tensor."""
        none = torch.zeros(shape)
        return np.stack([by_layer.get(layer, none).cpu().double().numpy() for layer in self.layers])


def folding_variance(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Upper bound of the variance of inner products between blocks, (V, V) by layer, from (V, M) sums.

    An inner product of two vectors' sums has variance (|a|² |b|² + <a, b>²) / M over the random signs (`projection`).
    Terms inside blocks are exact. The variance of the terms between two blocks is therefore about half of this bound.
    """
    variances: dict[str, Tensor] = {}
    for name, part in sums.items():
        dots = part @ part.T
        squares = dots.diagonal()
        add_up(variances, {layer_of(name): (squares[:, None] * squares + dots**2) / part.size(1)})
    return variances


def gradient_arrays(
    whole: dict[str, Tensor], shapes: dict[str, tuple[int, ...]], components: list[str]
) -> dict[str, np.ndarray]:
    """Whole gradients, a row by component, as the project rldynamics stores them: float32 by `component/parameter`."""
    return {
        f"{component}/{name}": gradients[k].float().cpu().numpy().reshape(shapes[name])
        for name, gradients in whole.items()
        for k, component in enumerate(components)
    }


def _grams_by_layer(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inner products, (V, V) by layer, of sums, (V, M) by parameter."""
    grams: dict[str, Tensor] = {}
    for name, part in sums.items():
        add_up(grams, {layer_of(name): part @ part.T})
    return grams
