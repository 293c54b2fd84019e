"""Explicit row gradients of a made-up step, and their inner products by plain loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reward_ablation.gram.similarity import Block


@dataclass(frozen=True)
class Rows:
    """Row gradients of one step, whole.

    gradients : (L, R, P); coefficients : (V, R); completions, prompts, blocks : (R,) int.
    """

    gradients: np.ndarray
    coefficients: np.ndarray
    completions: np.ndarray
    prompts: np.ndarray
    blocks: np.ndarray

    def vectors(self, rows=slice(None)) -> np.ndarray:
        """(L, V, P) gradients of the vectors, from some of the rows."""
        return np.einsum("vr,lrp->lvp", self.coefficients[:, rows], self.gradients[:, rows])

    def known(self) -> list[Block]:
        """The blocks as a run has them: with inner products inside blocks only."""
        return [
            Block(
                np.einsum("lrp,lsp->lrs", self.gradients[:, here], self.gradients[:, here]),
                self.coefficients[:, here],
                self.completions[here],
                self.prompts[here],
            )
            for here in (self.blocks == block for block in np.unique(self.blocks))
        ]

    def across(self) -> np.ndarray:
        """(L, V, V) products over the pairs of different blocks: products of the sums minus products inside blocks."""
        whole = self.vectors()
        inside = [self.vectors(self.blocks == block) for block in np.unique(self.blocks)]
        return whole @ whole.swapaxes(1, 2) - sum(part @ part.swapaxes(1, 2) for part in inside)

    def part(self, layer: int, a: int, b: int) -> dict[str, float]:
        """Each part of the inner product of two vectors, pair by pair."""
        sums = dict.fromkeys(("self", "same_prompt", "cross_prompt", "across_blocks"), 0.0)
        for r in range(len(self.prompts)):
            for s in range(len(self.prompts)):
                term = self.coefficients[a, r] * self.coefficients[b, s]
                term *= float(self.gradients[layer, r] @ self.gradients[layer, s])
                if self.blocks[r] != self.blocks[s]:
                    sums["across_blocks"] += term
                elif self.completions[r] == self.completions[s]:
                    sums["self"] += term
                elif self.prompts[r] == self.prompts[s]:
                    sums["same_prompt"] += term
                else:
                    sums["cross_prompt"] += term
        return sums


def made_up_rows(
    seed: int = 0,
    layers: int = 2,
    prompts: int = 4,
    group: int = 3,
    vectors: int = 3,
    families: int = 1,
    blocks: int = 1,
) -> Rows:
    """Random row gradients with a common part. A group may span several blocks, a family lies within one block."""
    rng = np.random.default_rng(seed)
    completions = np.repeat(np.arange(prompts * group), families)
    shape = layers, len(completions), 7
    return Rows(
        gradients=rng.normal(size=shape) + 0.5 * rng.normal(size=(layers, 1, 7)),
        coefficients=rng.normal(size=(vectors, len(completions))),
        completions=completions,
        prompts=completions // group + 10,
        blocks=completions % blocks,
    )
