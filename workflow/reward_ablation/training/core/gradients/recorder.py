"""What one micro-batch's backward passes leave behind: Gram matrices by layer, and a few numbers for each gradient."""

from __future__ import annotations

import re
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
#: Numbers of a parameter that are kept where terms between blocks are added up: all of them in a small one. A prime.
SUMS = 65_521

_BLOCK = re.compile(r"\.(layers|h|blocks)\.(\d+)\.")


def layer_of(parameter: str) -> str:
    """Layer of a parameter by its name: `layers.3` for a block, else the module, such as `embed_tokens`."""
    block = _BLOCK.search(f".{parameter}")
    if block:
        return f"layers.{block[2]}"
    path = [part for part in parameter.split(".") if part not in {"weight", "bias", "default"}]
    return path[-1] if not path[-1].startswith("lora_") else path[-2]


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


@dataclass
class Measurement:
    """Sums of one micro-batch's measured pass.

    Attributes
    ----------
    coefficients : (V, R) tensor
        Vector v is the sum over r of coefficients[v, r] times row r.
    projected : int
        The first so many vectors are projected.
    folded : bool
        Keep sums for products with other blocks.
    whole : bool
        Keep the first `projected` vectors themselves.
    grams : dict of str to (R, R) tensor
        By layer.
    projections : dict of str to (V', 509) tensor
        By layer.
    sums : dict of str to (V, M) or (R, M) tensor
        By parameter, of vectors or of rows, whichever are fewer; empty where the step has one block.
    vectors : dict of str to (V', P) tensor
        By parameter, where asked for.
    seen : set of str
        Parameters.
    """

    coefficients: Tensor
    projected: int
    folded: bool
    whole: bool
    grams: dict[str, Tensor] = field(default_factory=dict)
    projections: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    vectors: dict[str, Tensor] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def add(self, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> None:
        """Take in rows of part of a parameter.

        Parameters
        ----------
        parameter : str
        size : int
            Its count of numbers.
        rows : (R, n) or (R, U, H) tensor
            Gradients of all rows with respect to n numbers in a row, or to U rows of a matrix.
        place : int or (U,) tensor of int
            Where the n numbers start, or which rows of the matrix these are.
        """
        self.seen.add(parameter)
        flat = rows.flatten(1)
        layer = layer_of(parameter)
        gram = product(flat, flat.T)
        self.grams[layer] = self.grams[layer] + gram if layer in self.grams else gram
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
        """Whether rows are fewer than vectors, so that folding them is less work."""
        return self.coefficients.size(1) < self.coefficients.size(0)

    def folded_vectors(self) -> dict[str, Tensor]:
        """Sums of the vectors' numbers for products with other blocks, (V, M) by parameter."""
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
    """What the embedding needs of a head that shares its weight.

    Attributes
    ----------
    name : str
        Of the weight.
    to_logits : list of (B, T, U) tensor
        For each pass, gradients of the logits of the words that occur in the batch.
    inputs : (B, T, H) tensor
    """

    name: str
    to_logits: list[Tensor]
    inputs: Tensor


class Recorder:
    """What the layers' backward passes are asked for, and where they leave what they find.

    A layer's backward pass does one of three things: what autograd would do (`plain`); keep the gradients
    of its outputs for a later pass (`keeping`); or form the gradients of single completions, in blocks,
    which add up to the weight gradient with `scales` and go to `measurement`.

    Attributes
    ----------
    active : bool
        Whether the layers' forward passes belong to a training step.
    batch : int
        Completions B of the micro-batch.
    scales : (B,) tensor or None
        Advantages by which the completions' gradients add up to the training gradient.
    measurement : Measurement or None
    keeping : bool
    kept : dict of str to list of tensors
        By parameter, one of each earlier pass.
    """

    def __init__(self) -> None:
        self.active = False
        self.batch = 0
        self.width = 0  # of the completions, in tokens
        self.tokens = torch.empty(0)  # (B, L), prompts and completions
        self.scored = torch.empty(0)  # (B, L - 1), positions whose next token counts
        self.head_shares_embedding = False
        self.watched: list[nn.Module] = []
        self.expected: dict[str, int] = {}  # numbers of each trained parameter that one pass reports
        self.clear()

    def clear(self) -> None:
        """Forget a micro-batch."""
        self.active = False
        self.scales = None
        self.log_probs: Tensor | None = None  # (B, L - 1), of the model's own forward pass
        self.measurement: Measurement | None = None
        self.keeping = False
        self.kept: dict[str, list[Tensor]] = {}
        self.head: HeadGradient | None = None
        self.reported: dict[str, int] = {}

    @property
    def plain(self) -> bool:
        """Whether layers do what autograd would do."""
        return not self.keeping and self.scales is None and self.measurement is None

    def report(self, parameter: str, count: int) -> None:
        """Note that so many numbers of a parameter's training gradient were added up here."""
        self.reported[parameter] = self.reported.get(parameter, 0) + count

    def check(self, measurement: Measurement | None) -> None:
        """Make sure that every trained parameter was measured, and its gradient came by completion, once.

        Advantages come in here and nowhere else: a layer that is called twice, compiled or replaced would train on
        a wrong gradient.

        Raises
        ------
        StudyError
        """
        if measurement is not None and not self.expected.keys() <= measurement.seen:
            name = min(self.expected.keys() - measurement.seen)
            raise StudyError(f"gradients: the gradient of {name} cannot be seen; set gradients.every: off")
        if self.scales is None or self.reported == self.expected:
            return
        name = next(name for name in {**self.expected, **self.reported} if self._off(name))
        raise StudyError(
            f"gradients: {self.reported.get(name, 0):,} of {self.expected.get(name, 0):,} numbers of the gradient of "
            f"{name} came by completion: the model, or a setting that replaces its layers, is not supported; set "
            "gradients.backward: trl to train by TRL's own backward pass"
        )

    def _off(self, name: str) -> bool:
        return self.reported.get(name) != self.expected.get(name)

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
        """Take in rows (R, ...); return their sum over completions with the training's advantages, where wanted."""
        if self.measurement is not None:
            self.measurement.add(parameter, size, rows, place)
        if self.scales is None:
            return None
        self.report(parameter, rows[0].numel())
        own = rows[-self.batch :]
        return combined(self.scales[None], own.flatten(1)).view(own.shape[1:])
