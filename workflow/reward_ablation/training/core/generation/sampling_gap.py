"""The gap between the log-probabilities that vLLM sampled by and the trainer's own, by completion.

Two implementations of a model differ by rounding; importance sampling corrects for it (Yao et al. 2025, "Your
efficient RL framework secretly brings you off-policy RL training"). Weights that have not arrived differ by far more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SamplingGap:
    """What is logged of each completion of a batch.

    Attributes
    ----------
    mean : list of float
        Mean absolute difference of a completion's log-probabilities, in nats; NaN where TRL masks all of its tokens.
    corrected : list of float
        Share in [0, 1] of its tokens whose importance ratio was cut off or set to zero.
    """

    mean: list[float]
    corrected: list[float]


def sampling_gap(trainer: Tensor, sampler: Tensor, mask: Tensor, ratio: Tensor, by_sequence: bool) -> SamplingGap:
    """Gap of each completion, and how much of it the correction cut off.

    Parameters
    ----------
    trainer, sampler : (B, T) tensor
        Log-probabilities; NaN where vLLM gave none.
    mask : (B, T) tensor
        Tokens of the completions.
    ratio : (B, T) or (B, 1) tensor
        Importance ratios that the loss is multiplied by.
    by_sequence : bool
        A ratio is that of a whole completion.
    """
    difference = ((trainer - sampler) * mask).nan_to_num(nan=0.0)
    tokens = torch.where(mask.any(1), mask.sum(1), torch.nan)  # none where TRL leaves a cut completion out
    exact = torch.exp(difference.sum(1, keepdim=True) if by_sequence else difference)
    cut = (ratio != exact).expand_as(mask) & mask.bool()
    return SamplingGap((difference.abs().sum(1) / tokens).tolist(), (cut.sum(1) / tokens).tolist())
