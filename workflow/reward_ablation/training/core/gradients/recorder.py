"""Results of one micro-batch's backward passes: Gram matrices by layer, and the components' gradients, folded or whole.

`trainer` tells the recorder what the next backward pass is for, `layers` and `lm_head` report to it, and `step` adds up
micro-batches. A measured micro-batch has a pass for each `Family` of `loss_derivatives`: one, or more for placements,
clipping and KL. Their inner products need all passes at once: the last pass forms the gradients of all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients.projection import add_projected_rows, add_projection, offset_of

#: Bytes of gradients that are formed at once: large enough for fast matrix products, small enough for a CPU's cache.
BLOCK_BYTES = 16 * 2**20
#: The same on a GPU, which waits for the start of each kernel: fewer and larger ones.
GPU_BLOCK_BYTES = 256 * 2**20
#: Numbers per parameter that are kept for products <a, b> between micro-batches: a larger parameter is folded to so
#: many sums (`projection`), with a standard error of .004 |a||b|. A smaller one is kept whole. The size is a free
#: choice, but prime, so that neither rows nor columns of a weight line up with the sums.
SUMS = 65_521

_BLOCK = re.compile(r"\.(layers|h|blocks)\.(\d+)\.")  # a numbered layer; no block of the package's words


def layer_of(parameter: str) -> str:
    """Layer of a parameter by its name: `layers.3` if it is numbered, else the module, such as `embed_tokens`."""
    block = _BLOCK.search(f".{parameter}")
    if block:
        return f"layers.{block[2]}"
    # `default` is the name that peft gives an adapter.
    path = [part for part in parameter.split(".") if part not in {"weight", "bias", "default"}]
    return path[-1] if not path[-1].startswith("lora_") else path[-2]


def shape_of(parameter: Tensor) -> tuple[int, ...]:
    """Shape of the whole parameter, even where ZeRO-3 has split it over processes."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a number format for sums: float64 stays, any other becomes float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def product(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product in float32 or float64, not rounded to the factors' number format."""
    # On CUDA alone torch multiplies bfloat16 numbers into float32. Elsewhere the factors are widened first.
    if left.is_cuda and left.dtype == torch.bfloat16:
        return torch.mm(left, right, out_dtype=torch.float32)
    return wide(left) @ wide(right)


def combined(coefficients: Tensor, rows: Tensor) -> Tensor:
    """V weighted sums of R rows of P numbers, (V, R) and (R, P) -> (V, P), in float32 or float64."""
    if rows.is_cuda and rows.dtype == torch.bfloat16:
        # Two bfloat16 numbers hold a coefficient to 16 bits. A single one would round an advantage to 8 bits.
        high = coefficients.bfloat16()
        low = (coefficients - high.to(coefficients.dtype)).bfloat16()
        return product(torch.cat([high, low]), rows).unflatten(0, (2, -1)).sum(0)
    rows = wide(rows)
    return coefficients.to(rows.dtype) @ rows


def add_up(sums: dict[str, Tensor], parts: dict[str, Tensor]) -> None:
    """Add tensors to the sums of the same names. A name without a sum starts with its first tensor."""
    for key, part in parts.items():
        sums[key] = sums[key] + part if key in sums else part


@dataclass
class Measurement:
    """What the last pass of a measured micro-batch sums up; earlier passes only keep the gradients of layers' outputs.

    R rows are the gradients of single completions, B for each pass. V vectors, the gradients of components, are
    weighted sums of the rows. A parameter has P numbers, and M sums where it is folded.
    """

    coefficients: Tensor  # (V, R): vector v is the sum over r of coefficients[v, r] times row r
    folded: bool  # whether to keep `sums`, folded vectors for products with other micro-batches
    whole: int  # V': the first V' vectors, of the components alone, are kept whole to be written; 0 for none
    grams: dict[str, Tensor] = field(default_factory=dict)  # (R, R) by layer
    sums: dict[str, Tensor] = field(default_factory=dict)  # by parameter, (V, M), or of the rows, (R, M), if R < V
    vectors: dict[str, Tensor] = field(default_factory=dict)  # the first V' vectors, whole, (V', P) by parameter
    seen: set[str] = field(default_factory=set)  # names of the measured parameters

    def add(self, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> None:
        """Add the rows' gradients with respect to a part of a parameter of `size` numbers.

        `rows` are (R, n), with respect to n contiguous numbers, or (R, U, H), to U of a matrix's rows of H numbers.
        `place` is the index of the first of the n numbers, or a tensor, (U,), with the indices of the matrix's rows.
        """
        self.seen.add(parameter)
        flat = rows.flatten(1)
        add_up(self.grams, {layer_of(parameter): product(flat, flat.T)})
        if self.folded:
            folded = (
                wide(rows) if self._fewer_rows() else combined(self.coefficients, flat).unflatten(1, rows.shape[1:])
            )
            sums = self.sums.setdefault(parameter, folded.new_zeros(len(folded), min(size, SUMS)))
            if isinstance(place, int):
                add_projection(sums, folded, place, offset_of(parameter))
            else:
                add_projected_rows(sums, folded, place, offset_of(parameter))
        if self.whole:
            vectors = combined(self.coefficients[: self.whole], flat).unflatten(1, rows.shape[1:])
            kept = self.vectors.setdefault(parameter, vectors.new_zeros(self.whole, size))
            if isinstance(place, int):
                kept[:, place : place + vectors.size(1)] += vectors
            else:
                kept.view(self.whole, -1, rows.size(2))[:, place] += vectors

    def _fewer_rows(self) -> bool:
        """Whether there are fewer rows than vectors: folding the rows is then less work."""
        return self.coefficients.size(1) < self.coefficients.size(0)

    def folded_vectors(self) -> dict[str, Tensor]:
        """Sums of the vectors' numbers for products with other micro-batches, (V, M) by parameter."""
        if not self._fewer_rows():
            return self.sums
        return {name: combined(self.coefficients, sums) for name, sums in self.sums.items()}


@dataclass(frozen=True)
class HeadGradient:
    """The head's part of the gradient, for an embedding with the same weight, whose backward pass comes later."""

    name: str  # name of the weight
    to_logits: list[Tensor]  # by pass, (B, T, U) gradients of the logits of the U words that occur in the batch
    inputs: Tensor  # (B, T, H) inputs of the head


class Recorder:
    """Tells the layers' backward passes what to compute, and receives their results.

    A layer's backward pass does what autograd would do (`plain`), or keeps the gradients of the layer's outputs for a
    later pass (`keeping`), or forms the gradients of single completions: `scales`, if set, add them up to the training
    gradient, and `measurement`, if set, receives them.
    """

    def __init__(self) -> None:
        self.batch = 0  # B, completions of the micro-batch
        self.width = 0  # T, tokens of the padded completions
        self.tokens = torch.empty(0)  # (B, L), padded prompts and completions of L tokens
        self.scored = torch.empty(0)  # (B, L - 1) of bool, positions whose next token is a completion's and not masked
        self.head_shares_embedding = False  # whether they have one weight
        self.watched: list[nn.Module] = []  # layers whose forward pass `layers.watch` replaced
        self.expected: Counter[str] = Counter()  # by trained parameter: its size, once for each layer that has it
        self.clear()

    def clear(self) -> None:
        """Forget a micro-batch."""
        self.active = False  # whether the layers' forward passes belong to a training step
        self.scales: Tensor | None = None  # (B,) advantages by which gradients add up to the training gradient
        self.log_probs: Tensor | None = None  # (B, L - 1), of the model's own forward pass
        self.measurement: Measurement | None = None
        self.keeping = False  # whether this pass is kept for a later one
        self.kept: dict[str, list[Tensor]] = {}  # by a layer's parameter, gradients of the layer's outputs, by pass
        self.head: HeadGradient | None = None  # until the embedding has measured it
        self.reported: Counter[str] = Counter()  # by parameter, how many numbers of the training gradient were made

    @property
    def plain(self) -> bool:
        """Whether the layers' backward passes do what autograd would do."""
        return not self.keeping and self.scales is None and self.measurement is None

    def check(self, measurement: Measurement | None) -> None:
        """Raise StudyError unless the passes covered every trained parameter exactly once.

        The advantages enter the training gradient in these passes only. A layer that is compiled or replaced may not
        make them and would train without advantages; one that is called twice makes them twice.
        """
        if measurement is not None and not self.expected.keys() <= measurement.seen:
            name = min(self.expected.keys() - measurement.seen)
            raise StudyError(
                f"gradients: the gradient of {name} was not measured; set gradients.every: off, without whole"
            )
        if self.scales is None or self.reported == self.expected:
            return
        name = next(name for name in {**self.expected, **self.reported} if self.reported[name] != self.expected[name])
        raise StudyError(
            f"gradients: the backward pass by completion gave {self.reported[name]:,} of {self.expected[name]:,} "
            f"numbers of the gradient of {name}: the model, or a setting that replaces its layers, is not supported; "
            "set gradients.backward: trl to train by TRL's own backward pass"
        )

    def factors(self, name: str, gradient: Tensor) -> list[Tensor]:
        """Gradients of a module's outputs by pass of the measurement, this one last; none while this one is kept."""
        if self.keeping:
            self.kept.setdefault(name, []).append(gradient)
            return []
        return [*(self.kept.pop(name, []) if self.measurement is not None else []), gradient]

    def units_at_once(self, like: Tensor, width: int, passes: int) -> int:
        """For how many of a matrix's rows, of `width` numbers, gradients are formed at once on the device of `like`."""
        block = GPU_BLOCK_BYTES if like.is_cuda else BLOCK_BYTES
        return max(1, block // (4 * width * self.batch * passes))  # 4 bytes of a float32

    def collect(self, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> Tensor | None:
        """Measure R rows for a part of a parameter (`Measurement.add`); return the part's training gradient, if needed.

        The training gradient is the sum over completions, weighted by `scales`. In a `plain` pass the loss has weighted
        the completions already.
        """
        if self.plain:
            return rows.sum(0)
        if self.measurement is not None:
            self.measurement.add(parameter, size, rows, place)
        if self.scales is None:
            return None
        self.reported[parameter] += rows[0].numel()
        own = rows[-self.batch :]  # of the last pass, which is the training step's own
        return combined(self.scales[None], own.flatten(1)).view(own.shape[1:])
