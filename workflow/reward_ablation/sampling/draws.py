"""Random numbers per completion, and tokens drawn with them. No draw depends on other completions of a batch.

Training and evaluation use all of it where transformers generates. With vLLM, which draws by itself, they take only the
seed of each completion from here.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from transformers import LogitsProcessor

from reward_ablation.system.errors import NotFinite


def stream_seed(*parts: int | str) -> int:
    """Seed in [0, 2^63) of the random stream with these parts as its name, such as a run's seed, a step, a problem."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def uniforms(seed: int, length: int) -> np.ndarray:
    """(length,) numbers in [0, 1), one per token of a completion. A larger length begins with the same numbers."""
    return np.random.default_rng(seed).random(length)


def where_drawn(device: torch.device) -> torch.device:
    """Device on which the tokens of a model on `device` are drawn: the CPU for Apple's GPUs, which have no float64."""
    return torch.device("cpu") if device.type == "mps" else device


class SampleByRow(LogitsProcessor):
    """Draw each row's next token with that row's own random numbers, for one call of `generate`.

    transformers samples a whole batch from one global stream, in which the draws of a row depend on other rows. Here a
    row's token is the inverse of its cumulative distribution at the row's own number, which is an exact draw. The
    processor sets the score of this token to 0 and all others to -inf, so that greedy search takes the token.

    `numbers`, (rows, max_new_tokens), are random numbers in [0, 1) by row and new token. They are NaN in the rows of
    greedy requests, whose scores stay unchanged. `temperature` divides the logits. After it, only the smallest set of
    likeliest tokens is kept whose total probability reaches `top_p`, as in transformers and vLLM.
    """

    def __init__(self, numbers: torch.Tensor, temperature: float = 1.0, top_p: float = 1.0):
        self.numbers = numbers
        self.temperature = temperature
        self.top_p = top_p
        self.drawn = torch.zeros(len(numbers), dtype=torch.long, device=numbers.device)  # tokens so far, by row
        self.greedy = bool(numbers.isnan().all())

    def keep(self, rows: torch.Tensor) -> None:
        """Keep only these rows."""
        rows = rows.to(self.numbers.device)
        self.numbers, self.drawn = self.numbers[rows], self.drawn[rows]

    def join(self, numbers: torch.Tensor) -> None:
        """Add rows with these numbers, of which no token is drawn yet."""
        self.numbers = torch.cat([self.numbers, numbers])
        self.drawn = torch.cat([self.drawn, self.drawn.new_zeros(len(numbers))])
        self.greedy = self.greedy and bool(numbers.isnan().all())

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        place = where_drawn(scores.device)
        column = self.drawn.clamp(max=self.numbers.shape[1] - 1)  # a row that has ended may stay beside longer ones
        number = self.numbers.gather(1, column[:, None])[:, 0].to(place)
        self.drawn += 1
        if self.greedy:
            return scores
        token = draw(scores.to(place), number.nan_to_num(), self.temperature, self.top_p).to(scores.device)
        drawn = torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)
        return torch.where(number.isnan()[:, None].to(scores.device), scores, drawn)


class WatchLogits(LogitsProcessor):
    """Sees whether the logits of one call of `generate` always gave a distribution. Logits stay unchanged."""

    # -inf is allowed, because it rules a token out. The result stays on the device until `refuse_undefined` is called,
    # so that generation never waits for it.

    def __init__(self) -> None:
        self.defined: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        largest = scores.amax(-1)  # NaN if any is
        now = largest.isfinite().all()
        self.defined = now if self.defined is None else self.defined & now
        return scores

    def refuse_undefined(self) -> None:
        """Raise `NotFinite` if the logits of some token were NaN, infinite, or all -inf."""
        if self.defined is not None and not self.defined:
            raise NotFinite("the logits that tokens are sampled from are not finite")


def draw(logits: torch.Tensor, number: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Token ids (rows,) at `number` (rows,), float64 in [0, 1), of the distributions by `logits` (rows, vocabulary)."""
    # float64: in float32 a sum over 150,000 tokens would lose the improbable tokens.
    probability = torch.softmax(logits.double() / temperature, dim=-1)
    if top_p < 1:
        ordered = probability.sort(dim=-1, descending=True).values
        kept = (ordered.cumsum(dim=-1) - ordered < top_p).sum(dim=-1, keepdim=True)
        least = ordered.gather(1, kept - 1)  # a tie with the last kept token is kept too
        probability = probability.masked_fill(probability < least, 0.0)
    cumulative = probability.cumsum(dim=-1)
    place = torch.searchsorted(cumulative, number[:, None] * cumulative[:, -1:], right=True)[:, 0]
    # Rounding can put a point at the total, beyond every token: then take the likeliest token.
    return torch.where(place < logits.shape[-1], place, probability.argmax(dim=-1))
