"""The derivatives of a policy loss by the tokens' log-probabilities, from which a backward pass starts.

Every loss of TRL's is linear in a completion's advantage as long as the advantage keeps its sign. The derivatives at
advantages +1 and -1 therefore give those for any component and any weight, with TRL's own clipping, masks and
normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

#: Derivatives at +1 and -1 that differ by less, relative to the largest, are the same but for rounding.
SAME = 1e-5
#: Name of the family of the KL term's derivatives.
KL = "kl"


#: Columns of `Family.serves`: to clip as a negative advantage, as a positive one, or as those that are trained on.
NEGATIVE, POSITIVE, TRAINED = 0, 1, 2


@dataclass(frozen=True)
class Family:
    """One backward pass over all completions."""

    name: str  # the placement whose tokens the pass is about, or `kl`
    seeds: Tensor  # (B, T) derivatives of the loss by log-probabilities, for advantages of 1
    serves: Tensor  # (B, 3) of bool: whether the pass is for gradients that clip so, by completion

    @classmethod
    def for_all(cls, name: str, seeds: Tensor) -> Family:
        """A family for gradients that clip in any way."""
        return cls(name, seeds, torch.ones(len(seeds), 3, dtype=torch.bool, device=seeds.device))

    def without(self, ratio: Tensor) -> Family:
        """The same with seeds that are divided by importance ratios where these are not 0."""
        if self.name == KL:
            return self
        return replace(self, seeds=torch.where(ratio > 0, self.seeds / ratio, 0.0))

    def labels(self, mask: Tensor) -> list[str]:
        """Name of each completion's row: the family's, with how the row clips where the ways to clip differ.

        "/uneven" says that the tokens of a completion count differently: some are masked by entropy, or by their
        ratios to an older model. The row is then not a multiple of the gradient of the completion's log-probability.
        `mask`, (B, T) of bool, has the tokens of the completions.
        """
        endings = {(True, True, True): "", (False, True, False): "/+", (True, False, False): "/-"}
        endings |= {(False, True, True): "/+", (True, False, True): "/-", (False, False, True): "/trained"}
        spread = self.seeds.masked_fill(~mask, -torch.inf).amax(1) - self.seeds.masked_fill(~mask, torch.inf).amin(1)
        uneven = (spread > SAME * self.seeds.abs().max()) & (self.name != KL)
        return [
            self.name + (endings.get(tuple(served), "") or ("/uneven" if differs else ""))
            for served, differs in zip(self.serves.tolist(), uneven.tolist(), strict=True)
        ]


def differ(own: Tensor, other: Tensor) -> Tensor:
    """Whether each completion's derivatives depend on the advantage's sign, (B,)."""
    return (own - other).abs().amax(1) > SAME * own.abs().max()


def policy_families(
    own: Tensor, other: Tensor | None, signs: Tensor, placements: dict[str, Tensor | None]
) -> list[Family]:
    """The families that the gradients of all components are made of; those that clip as the training does come last.

    Parameters
    ----------
    own, other : (B, T) tensors
        Derivatives for advantages of 1, clipped by these signs and by the opposite signs. None if they do not differ.
    signs : (B,) or (B, T) tensor
        Of the advantages that are trained on.
    placements : dict of str to (B, T) tensor or None
        What each placement multiplies a token's advantage by; None for 1.
    """
    if other is None:
        return [Family.for_all(name, seeds) for name, seeds in _placed(own, placements)]
    two = differ(own, other)
    no = torch.zeros_like(two)
    if signs.dim() == 1:
        up = signs > 0
        extra = [(other, torch.stack([two & up, two & ~up, no], 1))]
        served = torch.stack([~(two & up), ~(two & ~up), ~no], 1)
    else:
        # A completion has tokens of both signs: each way of clipping takes a pass of its own.
        positive, negative = torch.where(signs > 0, own, other), torch.where(signs > 0, other, own)
        extra = [(positive, torch.stack([no, two, no], 1)), (negative, torch.stack([two, no, no], 1))]
        served = torch.stack([~two, ~two, ~no], 1)
    families = [
        Family(name, placed * serves.any(1)[:, None], serves)
        for seeds, serves in extra
        for name, placed in _placed(seeds, placements)
    ]
    return families + [Family(name, seeds, served) for name, seeds in _placed(own, placements)]


def _placed(seeds: Tensor, placements: dict[str, Tensor | None]) -> list[tuple[str, Tensor]]:
    return [(name, seeds if weights is None else seeds * weights) for name, weights in placements.items()]


def coefficients(advantages: Tensor, clips: Tensor, placements: Sequence[str], families: Sequence[Family]) -> Tensor:
    """How much each family's row of each completion counts in each gradient, (V, F * B), family by family.

    `advantages` and `clips` are (B, V): the advantages of each gradient, and how these clip (`NEGATIVE`, `POSITIVE` or
    `TRAINED`). `placements` names the family that each of the V gradients is made of.
    """
    columns = []
    for family in families:
        named = torch.tensor([placement == family.name for placement in placements], device=advantages.device)
        columns.append((advantages * family.serves.gather(1, clips) * named).T)
    return torch.cat(columns, dim=1)
