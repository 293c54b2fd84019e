"""Gradients by completion of the language model's head, which `layers` leaves out.

TRL never calls the head: one fused function makes log-probabilities of hidden states and the head's weight. `trainer`
makes its forward pass inside `watched_head`, which replaces the function's backward pass. `tests/training/test_trl.py`
pins these parts of TRL. A measured micro-batch has several backward passes (`recorder`). Earlier ones are kept: only
the derivatives that they start from are stored. The last, which may be the training step's own, forms the gradients of
all. A *plain* pass does what autograd would do, by TRL's own code. An entropy bonus trains by plain passes: only tests,
in float64, use the entropy's gradient here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from trl.kernels.chunked_logprob import ChunkedLogProbFunction
from trl.trainer import utils

from reward_ablation.training.core.gradients.layers import joined
from reward_ablation.training.core.gradients.recorder import HeadGradient, Recorder, product, wide


@contextmanager
def watched_head(recorder: Recorder, name: str | None, bias_name: str | None) -> Iterator[None]:
    """Let TRL's fused head report to `recorder` by the names of weight and bias; None for one that is not trained."""

    class WatchedLogProbs(ChunkedLogProbFunction):
        @staticmethod
        def forward(ctx, hidden, weight, bias, targets, *settings):
            results = ChunkedLogProbFunction.forward(ctx, hidden, weight, bias, targets, *settings)
            return _in_float64(ctx, results) if hidden.dtype == torch.float64 else results

        @staticmethod
        def backward(ctx, to_log_probs, to_entropy, *others):
            if (recorder.plain or name is None) and ctx.compute_dtype != torch.float64:
                return ChunkedLogProbFunction.backward(ctx, to_log_probs, to_entropy, *others)
            _, weight, bias, *_ = ctx.saved_tensors
            with utils.maybe_gather_lm_head_ctx(weight, bias):
                # None for the function's other inputs, the targets and five settings, which have no gradients.
                return (*_by_completion(ctx, to_log_probs, to_entropy, recorder, name, bias_name), *[None] * 6)

    original = utils._ChunkedLogProbFunction
    utils._ChunkedLogProbFunction = WatchedLogProbs  # type: ignore[misc]
    try:
        yield
    finally:
        utils._ChunkedLogProbFunction = original  # type: ignore[misc]


def _in_float64(ctx: Any, results: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """TRL's results computed in float64, for tests with references in float64. TRL itself computes in float32."""
    hidden, weight, bias, targets = ctx.to_save[:4]
    logits = _scaled(hidden @ weight.T + (0.0 if bias is None else bias), ctx.kernel_args)[0]
    log_z = logits.logsumexp(1)
    log_probs = logits.gather(1, targets[:, None])[:, 0] - log_z
    entropy = log_z - ((logits - log_z[:, None]).exp() * logits).sum(1)
    ctx.save_for_backward(hidden, weight, bias, targets, log_z, entropy)
    return log_probs, entropy, *results[2:]


def _scaled(logits: Tensor, settings: dict[str, Any]) -> tuple[Tensor, Tensor | float]:
    """Logits by scale, soft cap and temperature, the softmax's input, and their derivative by the head's own logits."""
    if not settings["HAS_SOFTCAP"]:
        slope = settings["logit_scale"] * settings["inv_t"]
        return (logits if slope == 1 else logits * slope), slope
    tanh = torch.tanh(logits * (settings["logit_scale"] / settings["softcap"]))
    slope = (1 - tanh * tanh) * (settings["logit_scale"] * settings["inv_t"])
    return tanh * (settings["softcap"] * settings["inv_t"]), slope


def _unit_gradient(logits: Tensor, targets: Tensor, log_z: Tensor, first: int, settings: dict[str, Any]) -> Tensor:
    """Gradient of N tokens' log-probabilities by a tile of the head's logits, (N, V').

    The tile starts with word `first`. `log_z` is the softmax's log-sum-exp for each token.
    """
    scaled, slope = _scaled(wide(logits), settings)
    gradient = (scaled - log_z[:, None].to(scaled.dtype)).exp_().neg_()
    inside = ((targets >= first) & (targets < first + logits.size(1))).nonzero()[:, 0]
    gradient[inside, targets[inside] - first] += 1.0
    return gradient if isinstance(slope, float) and slope == 1 else gradient * slope


def _entropy_gradient(logits: Tensor, log_z: Tensor, entropy: Tensor, settings: dict[str, Any]) -> Tensor:
    """Gradient of each token's entropy by a tile of the head's logits, (N, V')."""
    scaled, slope = _scaled(logits, settings)
    log_p = scaled - log_z[:, None]
    return -log_p.exp() * (log_p + entropy[:, None]) * slope


def _by_completion(
    ctx: Any,
    to_log_probs: Tensor,
    to_entropy: Tensor | None,
    recorder: Recorder,
    name: str | None,
    bias_name: str | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of hidden states, weight and bias, from this pass's gradients of log-probabilities and entropies.

    The logits are computed again in tiles of V' words, as in TRL's own backward pass, but for completions' tokens only:
    (B, T) for B completions of T padded tokens. Weight and bias have None in a kept pass and where nothing trains.
    """
    hidden, weight, bias, targets, log_z, entropy = ctx.saved_tensors
    inputs = _padded(hidden, recorder).to(ctx.compute_dtype)
    derivatives = _padded(to_log_probs, recorder)
    targets, log_z = (_padded(tensor, recorder).flatten() for tensor in (targets, log_z))
    entropies = None if to_entropy is None else [_padded(tensor, recorder) for tensor in (entropy, to_entropy)]
    plain = recorder.plain or name is None
    passes = [] if plain else recorder.factors(f"head {name}", derivatives)  # a key that no layer uses
    sums = None  # a kept pass gives the gradient of the hidden states alone
    if name is not None and (passes or plain):
        sums = _WeightGradient(recorder, name, bias_name, weight, bias, inputs)

    def tiles_of(part: Tensor, start: int) -> list[Tensor]:
        """Gradients of one tile's logits, (B, T, V'), by pass of the measurement; this pass is the last."""
        logits = inputs @ part.T
        if bias is not None:
            logits += bias[start : start + len(part)].to(logits.dtype)
        logits = logits.flatten(0, 1)
        unit = _unit_gradient(logits, targets, log_z, start, ctx.kernel_args).unflatten(0, inputs.shape[:2])
        # `passes` is empty in a kept or plain pass: `derivatives`, those of this pass, are then the only ones.
        tiles = [(unit * of_pass[:, :, None]).to(part.dtype) for of_pass in (*passes[:-1], derivatives)]
        if entropies is not None:
            entropy, to_each = entropies
            of_entropy = _entropy_gradient(logits, log_z, entropy.flatten(), ctx.kernel_args)
            tiles[-1] += of_entropy.view_as(unit) * to_each[:, :, None]
        return tiles

    step = recorder.units_at_once(weight, weight.shape[1], max(1, len(passes)))  # words of a tile
    multiple = _multiple_of_tiles(len(weight))
    step = -(-step // multiple) * multiple
    to_inputs = torch.zeros_like(wide(inputs))
    for start in range(0, len(weight), step):
        part = weight[start : start + step].to(ctx.compute_dtype)
        tiles = tiles_of(part, start)
        to_inputs += product(tiles[-1].flatten(0, 1), part).view_as(to_inputs)  # of this pass: it goes on to the layers
        if sums is not None:
            sums.add(tiles, start)
    return (_unpadded(to_inputs.to(hidden.dtype), hidden, recorder), *((None, None) if sums is None else sums.finish()))


def _multiple_of_tiles(vocabulary: int) -> int:
    """Each tile has a multiple of so many words: a free choice, which stays, because other tiles round differently."""
    return min(vocabulary, max(8, min(32, vocabulary // 8), min(256, vocabulary // 64)))


class _WeightGradient:
    """Gradients of the head's weight and bias by completion, tile by tile, and their sums if training needs these.

    Where the head shares the embedding's weight, both have a part of the gradient for each word of the batch. An inner
    product is not the sum of the parts' products. The head therefore holds these words back, and the embedding, whose
    backward pass comes later, measures them with both parts.
    """

    def __init__(
        self, recorder: Recorder, name: str, bias_name: str | None, weight: Tensor, bias: Tensor | None, inputs: Tensor
    ):
        self.recorder, self.name, self.bias_name, self.inputs = recorder, name, bias_name, inputs
        self.size, self.vocabulary = weight.numel(), len(weight)
        trains = recorder.plain or recorder.scales is not None  # whether this pass makes the training gradient
        self.weight, self.bias = (
            wide(torch.empty_like(part)) if trains and part is not None and named else None
            for part, named in ((weight, name), (bias, bias_name))
        )
        self.dtype = weight.dtype
        shared = recorder.head_shares_embedding and not recorder.plain
        self.words = torch.unique(recorder.tokens) if shared else None  # the words to hold back, in ascending order
        self.kept: list[list[Tensor]] = []  # by tile and pass: the columns of `tiles` that were held back

    def add(self, tiles: list[Tensor], start: int) -> None:
        """Add the gradients of a tile of logits, (B, T, V') by pass, from word `start`. Changes `tiles` in place."""
        words = slice(start, start + tiles[0].size(2))
        if self.bias_name is not None:
            rows = joined([tile.sum(1) for tile in tiles])
            total = self.recorder.collect(self.bias_name, self.vocabulary, rows, start)
            if self.bias is not None and total is not None:
                self.bias[words] = total
        held = self._hold_back(tiles, start, self.words) if self.words is not None else None
        rows = joined([tile.mT @ self.inputs for tile in tiles]).flatten(1)
        total = self.recorder.collect(self.name, self.size, rows, start * self.inputs.size(2))
        if self.weight is not None and total is not None:
            self.weight[words] = total.view(-1, self.inputs.size(2))
            if held is not None and self.recorder.scales is not None:
                columns, own = held  # training needs the words now; `total` has zeros for them
                scaled = own * self.recorder.scales[:, None, None].to(own.dtype)
                self.weight[start + columns] = product(scaled.flatten(0, 1).T, self.inputs.flatten(0, 1))

    def finish(self) -> tuple[Tensor | None, Tensor | None]:
        """Hand the words that were held back to the embedding; return the training gradients of weight and bias."""
        if self.words is not None:
            to_logits = [torch.cat(parts, dim=2) for parts in zip(*self.kept, strict=True)]
            self.recorder.head = HeadGradient(self.name, to_logits, self.inputs)
        weight, bias = (None if part is None else part.to(self.dtype) for part in (self.weight, self.bias))
        return weight, bias

    def _hold_back(self, tiles: list[Tensor], start: int, words: Tensor) -> tuple[Tensor, Tensor]:
        """Move the words' columns out of all passes' tiles; return their positions and the last pass's columns."""
        columns = words[(words >= start) & (words < start + tiles[0].size(2))] - start
        self.kept.append([tile[:, :, columns] for tile in tiles])
        for tile in tiles:
            tile[:, :, columns] = 0.0
        return columns, self.kept[-1][-1]


def _padded(tensor: Tensor, recorder: Recorder) -> Tensor:
    """The completions' part of a tensor with a row for each of N positions that TRL scores, (N, ...) -> (B, T, ...).

    On a GPU, TRL scores only the positions whose next token is one of a completion; on others, all positions.
    """
    if len(tensor) == recorder.scored.numel():
        return tensor.view(*recorder.scored.shape, *tensor.shape[1:])[:, -recorder.width :]
    padded = tensor.new_zeros(recorder.batch, recorder.width, *tensor.shape[1:])
    padded[recorder.scored[:, -recorder.width :]] = tensor
    return padded


def _unpadded(padded: Tensor, like: Tensor, recorder: Recorder) -> Tensor:
    """The inverse of `_padded`, as long as `like`, with zeros at the positions that `_padded` left out."""
    if len(like) != recorder.scored.numel():
        return padded[recorder.scored[:, -recorder.width :]]
    whole = torch.zeros_like(like)
    whole.view(*recorder.scored.shape, -1)[:, -recorder.width :] = padded
    return whole
