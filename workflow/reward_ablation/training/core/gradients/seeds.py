"""What a policy loss asks of each token: the derivatives by which a backward pass starts.

Every loss of TRL's is a function of the tokens' log-probabilities that is linear in a completion's
advantage as long as its sign stays the same. So its derivatives at advantages +1 and -1 say all, for
any component and any weight, with TRL's own clipping, masks and normalisation in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

#: Derivatives at +1 and -1 that differ by less, relative to the largest, are the same but for rounding.
SAME = 1e-5
#: Name of the family of the KL term's derivatives.
KL = "kl"


@dataclass(frozen=True)
class Family:
    """One backward pass over all completions.

    Attributes
    ----------
    name : str
        The placement whose tokens it is about, or `kl`.
    seeds : (B, T) tensor
        Derivatives of the loss with respect to log-probabilities, for advantages of 1.
    serves : (B, 3) tensor of bool
        For each completion, whether it is for gradients that clip as a negative advantage, as a positive one, and as
        the advantages that are trained on do.
    """

    name: str
    seeds: Tensor
    serves: Tensor

    @classmethod
    def for_all(cls, name: str, seeds: Tensor) -> Family:
        """A family for gradients that clip in any way."""
        return cls(name, seeds, torch.ones(len(seeds), 3, dtype=torch.bool, device=seeds.device))

    def without(self, ratio: Tensor) -> Family:
        """The same with seeds that are not multiplied by importance ratios, where these are not 0."""
        if self.name == KL:
            return self
        return replace(self, seeds=torch.where(ratio > 0, self.seeds / ratio, 0.0))

    def labels(self, mask: Tensor) -> list[str]:
        """Name of each row: the family's, with the way that it clips where ways differ.

        Where tokens of a completion count differently (masked by entropy, or by their ratios to an older model), the
        row is not the gradient of the completion's log-probability times a number: "/uneven".

        Parameters
        ----------
        mask : (B, T) tensor of bool
            Tokens of the completions.
        """
        endings = {(True, True, True): "", (False, True, False): "/+", (True, False, False): "/-"}
        endings |= {(False, True, True): "/+", (True, False, True): "/-", (False, False, True): "/trained"}
        spread = self.seeds.masked_fill(~mask, -torch.inf).amax(1) - self.seeds.masked_fill(~mask, torch.inf).amin(1)
        uneven = (spread > SAME * self.seeds.abs().max()) & (self.name != KL)
        return [
            self.name + (endings.get(tuple(served), "") or ("/uneven" if differs else ""))
            for served, differs in zip(self.serves.tolist(), uneven.tolist(), strict=True)
        ]


#: Columns of `Family.serves`.
NEGATIVE, POSITIVE, TRAINED = 0, 1, 2


def derivative(loss: Callable[[Tensor], Tensor], log_probs: Tensor) -> Tensor:
    """Derivative of a loss with respect to log-probabilities, (B, T)."""
    leaf = log_probs.detach().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


def signs_of(advantages: Tensor) -> Tensor:
    """+1 where an advantage is at least 0, else -1."""
    return torch.where(advantages < 0, -1.0, 1.0)


def differ(own: Tensor, other: Tensor) -> Tensor:
    """Completions whose derivatives depend on the advantage's sign, (B,)."""
    return (own - other).abs().amax(1) > SAME * own.abs().max()


def policy_families(
    own: Tensor, other: Tensor | None, signs: Tensor, placements: dict[str, Tensor | None]
) -> list[Family]:
    """The families that the gradients of all components are made of.

    Parameters
    ----------
    own, other : (B, T) tensors
        Derivatives for advantages of 1, as `signs` clips, and as the opposite signs clip (None: the same).
    signs : (B,) or (B, T) tensor
        Of the advantages that are trained on.
    placements : dict of str to (B, T) tensor or None
        What a placement multiplies each token's advantage by; None for 1.

    Returns
    -------
    list of Family
        Those that clip as the training does come last, in the placements' order.
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
        # One completion has tokens of both signs: each way of clipping takes a pass of its own.
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
    """What each family's row of each completion counts for each gradient.

    Parameters
    ----------
    advantages : (B, V) tensor
    clips : (B, V) tensor of int
        How each gradient clips: `NEGATIVE`, `POSITIVE` or `TRAINED`.
    placements : sequence of V str
        Name of the family that each gradient is made of.
    families : sequence of F Family

    Returns
    -------
    (V, F B) tensor
        Rows of the families one after another, each in the completions' order.
    """
    columns = []
    for family in families:
        named = torch.tensor([placement == family.name for placement in placements], device=advantages.device)
        columns.append((advantages * family.serves.gather(1, clips) * named).T)
    return torch.cat(columns, dim=1)
