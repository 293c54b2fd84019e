"""Random numbers for each completion, and tokens drawn by them: no draw depends on other completions of a batch."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from transformers import LogitsProcessor


def stream_seed(*parts: int | str) -> int:
    """Seed in [0, 2^63) of the random stream that these parts name, such as a run's seed, a step and a problem."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def uniforms(seed: int, length: int) -> np.ndarray:
    """(length,) numbers in [0, 1), one per token of a completion; more tokens begin with the same ones."""
    return np.random.default_rng(seed).random(length)


def where_drawn(device: torch.device) -> torch.device:
    """Where tokens of a model on this device are drawn: Apple's GPUs have no float64."""
    return torch.device("cpu") if device.type == "mps" else device


class SampleByRow(LogitsProcessor):
    """Draw each row's next token with that row's own random numbers, for one call of `generate`.

    transformers samples a whole batch from one global stream, in which the draws of a row depend on other rows. Here a
    row's token is the inverse of its cumulative distribution at the row's own number, an exact draw. The processor
    sets this token to 0 and all others to -inf, so that greedy search takes it.

    Parameters
    ----------
    numbers : (rows, max_new_tokens) tensor in [0, 1)
        Random numbers by row and new token; NaN in the rows of greedy requests, whose scores stay as they are.
    temperature, top_p : float
        top_p keeps the smallest set of likeliest tokens whose probability reaches it, after temperature, as
        transformers and vLLM do.
    """

    def __init__(self, numbers: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0):
        self.numbers = numbers
        self.temperature = temperature
        self.top_p = top_p
        self.drawn = 0  # tokens so far

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        place = where_drawn(scores.device)
        number = self.numbers[:, self.drawn].to(place)
        self.drawn += 1
        token = draw(scores.to(place), number.nan_to_num(), self.temperature, self.top_p).to(scores.device)
        drawn = torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)
        return torch.where(number.isnan()[:, None].to(scores.device), scores, drawn)


def draw(logits: torch.Tensor, number: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """(rows,) tokens of positive probability, at points of the cumulative distributions.

    `logits` are (rows, vocabulary), the points `number` are (rows,) float64 in [0, 1).
    """
    # float64: over 150,000 tokens a float32 sum would lose the improbable ones.
    probability = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1:
        ordered = probability.sort(dim=-1, descending=True).values
        kept = (ordered.cumsum(dim=-1) - ordered < top_p).sum(dim=-1, keepdim=True)
        least = ordered.gather(1, kept - 1)  # a tie with the last kept token is kept too
        probability = probability.masked_fill(probability < least, 0.0)
    cumulative = probability.cumsum(dim=-1)
    place = torch.searchsorted(cumulative, number[:, None] * cumulative[:, -1:], right=True)[:, 0]
    # Rounding can put a number at the total, behind every token: then take the likeliest token.
    return torch.where(place < logits.shape[-1], place, probability.argmax(dim=-1))
