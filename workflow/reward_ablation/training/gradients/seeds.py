"""What a policy loss asks of each token: the derivatives by which a backward pass starts.

Every loss of TRL's is a function of the tokens' log-probabilities that is linear in a completion's
advantage as long as its sign stays the same. So its derivatives at advantages +1 and -1 say all, for
any component and any weight, with TRL's own clipping, masks and normalisation in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    sign : (B,) tensor
        Whose advantages it is for: +1 the positive, -1 the negative, 0 any, NaN none.
    """

    name: str
    seeds: Tensor
    sign: Tensor

    def labels(self) -> list[str]:
        """Name of each row: the family's, with the sign where the other sign has other derivatives."""
        return [self.name + {1.0: "/+", -1.0: "/-"}.get(sign, "") for sign in self.sign.tolist()]


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
    signs : (B,) tensor
        Of the advantages that are trained on.
    placements : dict of str to (B, T) tensor or None
        What a placement multiplies each token's advantage by; None for 1.

    Returns
    -------
    list of Family
        The training signs' come after the opposite ones', in the placements' order.
    """
    if other is None:
        return _placed(own, torch.zeros_like(signs), placements)
    two = differ(own, other)
    return [
        *_placed(other * two[:, None], torch.where(two, -signs, torch.nan), placements),
        *_placed(own, torch.where(two, signs, 0.0), placements),
    ]


def _placed(seeds: Tensor, sign: Tensor, placements: dict[str, Tensor | None]) -> list[Family]:
    return [Family(name, seeds if weights is None else seeds * weights, sign) for name, weights in placements.items()]


def coefficients(advantages: Tensor, placements: Sequence[str], families: Sequence[Family]) -> Tensor:
    """What each family's row of each completion counts for each gradient.

    Parameters
    ----------
    advantages : (B, V) tensor
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
        fits = (family.sign[:, None] == 0) | (family.sign[:, None] == signs_of(advantages))
        named = torch.tensor([placement == family.name for placement in placements], device=advantages.device)
        columns.append((advantages * fits * named).T)
    return torch.cat(columns, dim=1)
