"""Trials of what a layer computes, with random inputs and weights.

`layers` makes them for layers that it does not know by their code, because the name of a class proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reward_ablation.training.core.gradients.recorder import shape_of

#: Completions and tokens of a trial, and the width of its embedding: a free choice.
ROWS, TOKENS, WIDTH = 2, 3, 4
#: Largest parameter, in numbers, that is copied for each completion. Copies take memory; a norm's are smaller.
LARGEST = 2**20
#: Relative and absolute tolerance for two ways of computing the same result in float32.
RELATIVE, ABSOLUTE = 1e-4, 1e-5


@contextmanager
def in_place_of_parameters(module: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module compute with other tensors: an attribute of the instance hides a parameter of the same name."""
    module.__dict__.update(tensors)
    try:
        yield
    finally:
        for name in tensors:
            del module.__dict__[name]


def one_copy_each(parameter: Tensor, dimensions: int, copies: int) -> Tensor:
    """A view of a parameter (*S) as B copies, (B, 1, ..., *S), which broadcast against (B, ..., *S) inputs."""
    return parameter.expand(copies, *[1] * (dimensions - 1 - parameter.dim()), *parameter.shape)


def takes_a_copy_for_each_completion(module: nn.Module) -> bool:
    """Whether a layer works with one copy of its parameters for each completion, as norms, scales and shifts do.

    Each completion's output then depends only on its own input and its own copy.
    """
    shapes = {name: shape_of(parameter) for name, parameter in module.named_parameters(recurse=False)}
    if not shapes or next(module.children(), None) is not None or next(module.buffers(), None) is not None:
        return False  # a layer may write to its buffers, as a batch norm does
    if max(math.prod(shape) for shape in shapes.values()) > LARGEST:
        return False
    longest = max(shapes.values(), key=len)
    generator = torch.Generator().manual_seed(1)  # leaves the random state of training alone
    inputs = torch.randn(ROWS, TOKENS, *longest, generator=generator)
    own = {name: torch.randn(ROWS, *shape, generator=generator) for name, shape in shapes.items()}
    together = {
        name: torch.cat([one_copy_each(value, inputs.dim(), 1) for value in values]) for name, values in own.items()
    }
    try:
        with torch.no_grad():
            with in_place_of_parameters(module, together):
                outputs = type(module).forward(module, inputs)
            for row in range(ROWS):
                with in_place_of_parameters(module, {name: values[row] for name, values in own.items()}):
                    alone = type(module).forward(module, inputs[row : row + 1])
                if alone.shape[1:] != outputs.shape[1:] or not _close(outputs[row : row + 1], alone):
                    return False
    except Exception:  # a foreign layer may raise anything if it cannot be called like this
        return False
    return True


def is_scaled_embedding(module: nn.Embedding) -> bool:
    """Whether an embedding's own forward pass looks up rows and multiplies them by `embed_scale`."""
    scales = next(module.buffers(), torch.empty(0))
    weight = torch.randn(module.num_embeddings, WIDTH, generator=torch.Generator().manual_seed(1)).to(scales.device)
    ids = torch.arange(ROWS * TOKENS, device=weight.device).view(ROWS, TOKENS) % module.num_embeddings
    try:
        scale: Any = module.embed_scale
        expected = F.embedding(ids, weight) * scale
        with torch.no_grad(), in_place_of_parameters(module, {"weight": weight}):
            return _close(type(module).forward(module, ids), expected)
    except Exception:  # as above
        return False


def _close(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=RELATIVE, atol=ABSOLUTE)
