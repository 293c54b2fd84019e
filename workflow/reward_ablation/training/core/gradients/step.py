"""The measurements of one optimiser step, block by block, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from reward_ablation.gram.similarity import Block, gradient_rows
from reward_ablation.gram.store import gram_table, projection_table, row_table
from reward_ablation.training.core.gradients.recorder import PROJECTED, SUMS, Measurement, layer_of
from reward_ablation.training.core.gradients.seeds import Family


@dataclass(frozen=True)
class Completion:
    """Where a row of a Gram matrix is found in the rollout log."""

    generation_step: int
    problem_id: str
    rollout: int
    place: int  # in the generation batch, over all processes
    group: int


class StepMeasurement:
    """Blocks of one optimiser step on one process.

    Parameters
    ----------
    model : Module
        Its trained parameters give the layers and their order.
    vectors : list of (str, str)
        Definition and component of each gradient.
    projected : int
        The first so many are projected.
    processes : int
        The optimiser takes the mean of the processes' gradients.
    """

    def __init__(self, model: nn.Module, vectors: list[tuple[str, str]], projected: int, processes: int):
        sizes = {
            name: getattr(parameter, "ds_numel", parameter.numel())  # ZeRO-3 holds a part of each
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        named = list(sizes)
        self.folded = {name for name, size in sizes.items() if size > SUMS}
        self.layers = list(dict.fromkeys(layer_of(name) for name in named))
        self.vectors = vectors
        self.projected = projected
        self.processes = processes
        self.clear()

    def clear(self) -> None:
        """Start the next step."""
        self.blocks: list[tuple[Block, list[tuple]]] = []
        self.projections: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        self.inside: dict[str, Tensor] = {}
        self.whole: dict[str, Tensor] = {}

    def add(
        self,
        measurement: Measurement,
        families: list[Family],
        completions: list[Completion],
        mask: Tensor,
        ratio: Tensor | None = None,
    ) -> None:
        """Take in a block.

        Parameters
        ----------
        measurement : Measurement
        families : list of Family
            In the order of the measurement's rows.
        completions : list of Completion
            The micro-batch.
        mask : (B, T) tensor of bool
            Their tokens.
        ratio : (B, T) or (B, 1) tensor, optional
            Importance ratios of what vLLM sampled. They are part of the rows, and not of what the rows are told by: any
            weights would train on the same ratios.
        """
        if ratio is not None:
            mask = mask & (ratio > 0)
            families = [family.without(ratio) for family in families]
        present = np.concatenate([family.serves.any(1).cpu().numpy() for family in families])
        size = len(present)
        empty = torch.zeros(size, size)
        grams = [measurement.grams.get(layer, empty).cpu().double().numpy() for layer in self.layers]
        stacked = np.stack(grams)[:, present][:, :, present] / self.processes**2
        weights = [(-family.seeds.sum(1) / mask.sum(1).clamp(min=1)).tolist() for family in families]
        rows = [
            (completion.generation_step, completion.problem_id, completion.rollout, label, weight / self.processes)
            for family, of_family in zip(families, weights, strict=True)
            for completion, label, weight in zip(completions, family.labels(mask), of_family, strict=True)
        ]
        block = Block(
            grams=stacked,
            coefficients=measurement.coefficients.cpu().double().numpy()[:, present],
            completions=np.array([completion.place for completion in completions] * len(families))[present],
            prompts=np.array([completion.group for completion in completions] * len(families))[present],
        )
        self.blocks.append((block, [row for row, is_here in zip(rows, present, strict=True) if is_here]))
        _add(self.projections, measurement.projections)
        _add(self.whole, measurement.vectors)
        sums = measurement.folded_vectors()
        _add(self.sums, sums)
        _add(self.inside, _grams_by_layer(sums))

    def tables(
        self, step: int, reduce: Callable[[Tensor], Tensor], gather: Callable[[list], list]
    ) -> dict[str, pa.Table]:
        """All that is written of the step; empties the measurement.

        Parameters
        ----------
        step : int
        reduce : callable
            Mean of a tensor over the processes.
        gather : callable
            Lists of all processes, joined.
        """
        blocks, rows = zip(*gather(self.blocks), strict=True)
        across = variance = None
        if self.sums:
            # Terms between blocks: what all blocks' sums give together, less what each gives by itself.
            sums = {name: reduce(part) for name, part in self.sums.items()}
            total = _grams_by_layer(sums)
            for layer, inside in self.inside.items():
                total[layer] -= reduce(inside) / self.processes
            across = self._stacked(total)
            variance = self._stacked(folding_variance({name: sums[name] for name in sums if name in self.folded}))
        none = torch.zeros(self.projected, PROJECTED)
        projections = np.stack(
            [reduce(self.projections.get(layer, none)).cpu().double().numpy() for layer in self.layers]
        )
        tables = {
            "gradients": gradient_rows(step, self.layers, self.vectors, list(blocks), across, variance),
            "sample_grams": pa.concat_tables(
                gram_table(step, number, self.layers, block.grams) for number, block in enumerate(blocks)
            ),
            "sample_gram_rows": pa.concat_tables(
                row_table(step, number, *zip(*row, strict=True)) for number, row in enumerate(rows)
            ),
            "projections": projection_table(step, self.layers, self.vectors[: self.projected], projections),
        }
        self.clear()
        return tables

    def _stacked(self, by_layer: dict[str, Tensor]) -> np.ndarray:
        """(V, V) tensors by layer as an (L, V, V) array."""
        empty = torch.zeros(len(self.vectors), len(self.vectors))
        return np.stack([by_layer.get(layer, empty).cpu().double().numpy() for layer in self.layers])


def folding_variance(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Variance, at most, of inner products between blocks, from (V, M) sums of folded parameters: (V, V) by layer.

    An inner product of two vectors' sums has variance (|a|² |b|² + <a, b>²) / M over the random signs (`projection`).
    Terms inside blocks are exact, so that the variance of the terms between two blocks is about half of that.
    """
    variances: dict[str, Tensor] = {}
    for name, part in sums.items():
        dots = part @ part.T
        squares = dots.diagonal()
        _add(variances, {layer_of(name): (squares[:, None] * squares + dots**2) / part.size(1)})
    return variances


def _add(sums: dict[str, Tensor], parts: dict[str, Tensor]) -> None:
    for key, part in parts.items():
        sums[key] = sums[key] + part if key in sums else part


def _grams_by_layer(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    grams: dict[str, Tensor] = {}
    for name, part in sums.items():
        _add(grams, {layer_of(name): part @ part.T})
    return grams
