"""Derivatives of TRL's policy loss by the tokens' log-probabilities, from which backward passes start.

`trainer` computes the derivatives. This module makes of them the backward passes of a measured micro-batch (families),
and the coefficients that add up their gradients. A policy loss of TRL is linear in an advantage as long as its sign is
the same; the sign decides the clipping. The derivatives at advantages +1 and -1 therefore give the derivatives for any
component and weight, with TRL's own clipping, masks and normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

#: Derivatives at +1 and -1 count as equal if they differ by less than this part of the largest: that is rounding.
SAME = 1e-5
#: Name of the family of the KL term's derivatives.
KL = "kl"
#: Columns of `Family.serves`, the ways to clip: as for negative advantages, as for positive ones, and as in training.
NEGATIVE, POSITIVE, TRAINED = 0, 1, 2


@dataclass(frozen=True)
class Family:
    """One backward pass over the B completions of a micro-batch."""

    name: str  # name of a placement, whose tokens the pass starts from, or `kl`
    loss_derivatives: Tensor  # (B, T), of the loss by T tokens' log-probabilities, for advantages of 1
    serves: Tensor  # (B, 3) of bool; `serves[b, c]`: use this pass for completion b under clipping c

    @classmethod
    def for_all(cls, name: str, loss_derivatives: Tensor) -> Family:
        """A family for gradients with any way to clip."""
        every_clipping = torch.ones(len(loss_derivatives), 3, dtype=torch.bool, device=loss_derivatives.device)
        return cls(name, loss_derivatives, every_clipping)

    def without(self, ratio: Tensor) -> Family:
        """The family with its derivatives divided by importance ratios, and with 0 where a ratio is 0."""
        if self.name == KL:
            return self
        return replace(self, loss_derivatives=torch.where(ratio > 0, self.loss_derivatives / ratio, 0.0))

    def labels(self, mask: Tensor) -> list[str]:
        """Label of each completion's row in a Gram matrix: the family's name and, where clipping differs, an ending.

        "/+" and "/-" mark rows that serve advantages of this sign, "/trained" rows that serve the training alone.
        "/uneven" says that the tokens of a completion count differently: by a placement on some tokens, a mask by
        entropy, or their ratios to an older model. The row is then not a multiple of the gradient of the completion's
        log-probability. `mask`, (B, T) of bool, marks the tokens of the completions.
        """
        endings = {(True, True, True): "", (False, True, False): "/+", (True, False, False): "/-"}
        endings |= {(False, True, True): "/+", (True, False, True): "/-", (False, False, True): "/trained"}
        of_tokens = self.loss_derivatives
        spread = of_tokens.masked_fill(~mask, -torch.inf).amax(1) - of_tokens.masked_fill(~mask, torch.inf).amin(1)
        uneven = (spread > SAME * of_tokens.abs().max()) & (self.name != KL)
        return [
            self.name + (endings.get(tuple(served), "") or ("/uneven" if differs else ""))
            for served, differs in zip(self.serves.tolist(), uneven.tolist(), strict=True)
        ]


def differ(own: Tensor, other: Tensor) -> Tensor:
    """Whether each completion's derivatives depend on the advantage's sign, (B,); arguments as in `policy_families`."""
    return (own - other).abs().amax(1) > SAME * own.abs().max()


def policy_families(
    own: Tensor, other: Tensor | None, signs: Tensor, placements: dict[str, Tensor | None]
) -> list[Family]:
    """The families from which the gradients of all components are made; families that clip as training does come last.

    `own`, (B, T), are the derivatives for advantages of 1, clipped as for advantages with these `signs`: those of the
    training, (B,) or (B, T). `other`, (B, T), are clipped as for the opposite signs, or None if they equal `own`.
    `placements` has, by placement, the factors of the tokens' advantages, (B, T), or None for factors of 1.
    """
    if other is None:
        return [Family.for_all(name, placed) for name, placed in _placed(own, placements)]
    sign_matters = differ(own, other)
    nowhere = torch.zeros_like(sign_matters)
    if signs.dim() == 1:  # `own` serves training and a completion's own sign, `other` the opposite sign
        positive = signs > 0
        extra = [(other, torch.stack([sign_matters & positive, sign_matters & ~positive, nowhere], 1))]
        served = torch.stack([~(sign_matters & positive), ~(sign_matters & ~positive), ~nowhere], 1)
    else:
        # A completion has tokens of both signs, so each way to clip needs a pass of its own.
        as_positive, as_negative = torch.where(signs > 0, own, other), torch.where(signs > 0, other, own)
        extra = [
            (as_positive, torch.stack([nowhere, sign_matters, nowhere], 1)),
            (as_negative, torch.stack([sign_matters, nowhere, nowhere], 1)),
        ]
        served = torch.stack([~sign_matters, ~sign_matters, ~nowhere], 1)
    families = [
        Family(name, placed * serves.any(1)[:, None], serves)  # 0 for completions that the pass does not serve
        for derivatives, serves in extra
        for name, placed in _placed(derivatives, placements)
    ]
    return families + [Family(name, placed, served) for name, placed in _placed(own, placements)]


def _placed(derivatives: Tensor, placements: dict[str, Tensor | None]) -> list[tuple[str, Tensor]]:
    """Derivatives by placement."""
    return [(name, derivatives if weights is None else derivatives * weights) for name, weights in placements.items()]


def coefficients(advantages: Tensor, clips: Tensor, placements: Sequence[str], families: Sequence[Family]) -> Tensor:
    """Coefficients, (V, F * B), by which V gradients are made from the rows of F families, one row per completion.

    `advantages` are (B, V). `clips`, (B, V), says how they clip: `NEGATIVE`, `POSITIVE` or `TRAINED`. `placements` has
    for each gradient the name of the families from which it is made.
    """
    columns = []
    for family in families:
        named = torch.tensor([placement == family.name for placement in placements], device=advantages.device)
        columns.append((advantages * family.serves.gather(1, clips) * named).T)
    return torch.cat(columns, dim=1)
