"""What one micro-batch's backward passes leave behind: Gram matrices by layer, and a few numbers for each gradient."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients.projection import add_projected_rows, add_projection, offset_of

#: Bytes of one block of rows: large enough for matrix products, small enough for a cache.
BLOCK_BYTES = 16 * 2**20
#: Numbers by layer that stand for a gradient where steps, seeds and arms are compared. A prime: neither rows
#: nor columns of a weight line up with the sums.
PROJECTED = 509
#: Numbers of a parameter that are kept for products between micro-batches: all numbers of a small one. A prime.
SUMS = 65_521

_BLOCK = re.compile(r"\.(layers|h|blocks)\.(\d+)\.")


def layer_of(parameter: str) -> str:
    """Layer of a parameter by its name: `layers.3` for a block, else the module, such as `embed_tokens`."""
    block = _BLOCK.search(f".{parameter}")
    if block:
        return f"layers.{block[2]}"
    path = [part for part in parameter.split(".") if part not in {"weight", "bias", "default"}]
    return path[-1] if not path[-1].startswith("lora_") else path[-2]


def shape_of(parameter: Tensor) -> tuple[int, ...]:
    """Shape of a whole parameter, of which ZeRO-3 holds a part."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def wide(tensor: Tensor) -> Tensor:
    """The tensor in a format to add up in: float32, or float64 where it came in that."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def product(left: Tensor, right: Tensor) -> Tensor:
    """Matrix product, added up in float32 or float64 and not rounded to the factors' format."""
    if left.is_cuda and left.dtype == torch.bfloat16:
        return torch.mm(left, right, out_dtype=torch.float32)
    return wide(left) @ wide(right)


def combined(coefficients: Tensor, rows: Tensor) -> Tensor:
    """Weighted sums of rows, (V, R) and (R, P) -> (V, P), added up in float32 or float64."""
    if rows.is_cuda and rows.dtype == torch.bfloat16:
        # Two bfloat16 numbers hold a coefficient to 16 bits: one alone would round an advantage to 8.
        high = coefficients.bfloat16()
        low = (coefficients - high.to(coefficients.dtype)).bfloat16()
        return product(torch.cat([high, low]), rows).unflatten(0, (2, -1)).sum(0)
    rows = wide(rows)
    return coefficients.to(rows.dtype) @ rows


def add_up(sums: dict[str, Tensor], parts: dict[str, Tensor]) -> None:
    """Add tensors to sums of the same names; the first tensor of a name is the sum."""
    for key, part in parts.items():
        sums[key] = sums[key] + part if key in sums else part


@dataclass
class Measurement:
    """Sums of one micro-batch's measured pass: over R rows, of which V vectors are weighted sums."""

    coefficients: Tensor  # (V, R): vector v is the sum over r of coefficients[v, r] times row r
    projected: int  # V': the first V' vectors are projected
    folded: bool  # keep `sums`, for products with other micro-batches
    whole: bool  # keep `vectors`
    grams: dict[str, Tensor] = field(default_factory=dict)  # (R, R) by layer
    projections: dict[str, Tensor] = field(default_factory=dict)  # (V', 509) by layer
    sums: dict[str, Tensor] = field(default_factory=dict)  # (V, M) by parameter; (R, M) where rows are fewer
    vectors: dict[str, Tensor] = field(default_factory=dict)  # the first V' whole, (V', P) by parameter
    seen: set[str] = field(default_factory=set)  # parameters

    def add(self, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> None:
        """Take in rows of part of a parameter.

        Parameters
        ----------
        size : int
            How many numbers the whole parameter has.
        rows : (R, n) or (R, U, H) tensor
            Gradients of all rows with respect to n contiguous numbers, or to U rows of a matrix.
        place : int or (U,) tensor of int
            Where the n numbers start, or which rows of the matrix these are.
        """
        self.seen.add(parameter)
        flat = rows.flatten(1)
        add_up(self.grams, {layer_of(parameter): product(flat, flat.T)})
        if self.folded:
            folded = (
                wide(rows) if self._fewer_rows() else combined(self.coefficients, flat).unflatten(1, rows.shape[1:])
            )
            _project(self.sums, parameter, min(size, SUMS), folded, place, parameter)
        if self.whole:
            vectors = combined(self.coefficients[: self.projected], flat).unflatten(1, rows.shape[1:])
            kept = self.vectors.setdefault(parameter, vectors.new_zeros(self.projected, size))
            if isinstance(place, int):
                kept[:, place : place + vectors.size(1)] += vectors
            else:
                kept.view(self.projected, -1, rows.size(2))[:, place] += vectors

    def _fewer_rows(self) -> bool:
        """Whether rows are fewer than vectors, so that folding the rows is less work."""
        return self.coefficients.size(1) < self.coefficients.size(0)

    def folded_vectors(self) -> dict[str, Tensor]:
        """Sums of the vectors' numbers for products with other micro-batches, (V, M) by parameter."""
        if not self._fewer_rows():
            return self.sums
        return {name: combined(self.coefficients, sums) for name, sums in self.sums.items()}

    def project(self, parameter: str, rows: Tensor, place: int = 0) -> None:
        """Take in rows of a parameter's folded gradients from a place on, (R, ...), for the projections."""
        vectors = combined(self.coefficients[: self.projected], rows.flatten(1))
        _project(self.projections, layer_of(parameter), PROJECTED, vectors, place, f"folded {parameter}")


def _project(
    sums: dict[str, Tensor], key: str, size: int, vectors: Tensor, place: int | Tensor, parameter: str
) -> None:
    if key not in sums:
        sums[key] = vectors.new_zeros(len(vectors), size)
    if isinstance(place, int):
        add_projection(sums[key], vectors, place, offset_of(parameter))
    else:
        add_projected_rows(sums[key], vectors, place, offset_of(parameter))


@dataclass(frozen=True)
class HeadGradient:
    """What the embedding needs of a head that shares its weight."""

    name: str  # of the weight
    to_logits: list[Tensor]  # by pass, (B, T, U) gradients of the logits of the U words that occur in the batch
    inputs: Tensor  # (B, T, H)


class Recorder:
    """What the layers' backward passes are asked for, and where they leave what they find.

    A layer's backward pass does one of three things. It does what autograd would do (`plain`). It keeps the gradients
    of the layer's outputs for a later pass (`keeping`). Or it forms the gradients of single completions, in blocks,
    which add up to the weight gradient with `scales` and go to `measurement`.
    """

    def __init__(self) -> None:
        self.batch = 0  # B, completions of the micro-batch
        self.width = 0  # of the completions, in tokens
        self.tokens = torch.empty(0)  # (B, L), prompts and completions
        self.scored = torch.empty(0)  # (B, L - 1), positions whose next token counts
        self.head_shares_embedding = False
        self.watched: list[nn.Module] = []
        self.expected: Counter[str] = Counter()  # numbers of each trained parameter that one pass reports
        self.clear()

    def clear(self) -> None:
        """Forget a micro-batch."""
        self.active = False  # whether the layers' forward passes belong to a training step
        self.scales: Tensor | None = None  # (B,) advantages by which gradients add up to the training gradient
        self.log_probs: Tensor | None = None  # (B, L - 1), of the model's own forward pass
        self.measurement: Measurement | None = None
        self.keeping = False
        self.kept: dict[str, list[Tensor]] = {}  # by parameter, gradients of the outputs in earlier passes
        self.head: HeadGradient | None = None
        self.reported: Counter[str] = Counter()  # numbers of each training gradient that were added up here

    @property
    def plain(self) -> bool:
        """Whether layers do what autograd would do."""
        return not self.keeping and self.scales is None and self.measurement is None

    def check(self, measurement: Measurement | None) -> None:
        """A StudyError unless every trained parameter was measured, and its gradient came by completion, once.

        Advantages come in here and nowhere else: a layer that is called twice, compiled or replaced would train on
        a wrong gradient.
        """
        if measurement is not None and not self.expected.keys() <= measurement.seen:
            name = min(self.expected.keys() - measurement.seen)
            raise StudyError(f"gradients: the gradient of {name} cannot be seen; set gradients.every: off")
        if self.scales is None or self.reported == self.expected:
            return
        name = next(name for name in {**self.expected, **self.reported} if self.reported[name] != self.expected[name])
        raise StudyError(
            f"gradients: {self.reported[name]:,} of {self.expected[name]:,} numbers of the gradient of {name} came by "
            "completion: the model, or a setting that replaces its layers, is not supported; set "
            "gradients.backward: trl to train by TRL's own backward pass"
        )

    def factors(self, name: str, gradient: Tensor) -> list[Tensor]:
        """Gradients of a module's outputs in all passes, this one last; empty while they are being kept."""
        if self.keeping:
            self.kept.setdefault(name, []).append(gradient)
            return []
        return [*(self.kept.pop(name, []) if self.measurement is not None else []), gradient]

    def units_at_once(self, width: int, passes: int) -> int:
        """How many output units to take at once, each with `width` numbers."""
        return max(1, BLOCK_BYTES // (4 * width * self.batch * passes))

    def collect(self, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> Tensor | None:
        """Take in rows (R, ...); return their sum over completions, with the training's advantages, where wanted."""
        if self.plain:
            return rows.sum(0)
        if self.measurement is not None:
            self.measurement.add(parameter, size, rows, place)
        if self.scales is None:
            return None
        self.reported[parameter] += rows[0].numel()
        own = rows[-self.batch :]
        return combined(self.scales[None], own.flatten(1)).view(own.shape[1:])

    def collect_vector(self, parameter: str, rows: Tensor) -> Tensor | None:
        """`collect` gradients of a whole vector, (R, n), and project them."""
        if self.measurement is not None:
            self.measurement.project(parameter, rows)
        return self.collect(parameter, rows.size(1), rows, 0)
