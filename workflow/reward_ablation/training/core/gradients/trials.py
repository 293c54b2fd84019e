"""What a layer computes, found by a trial on random numbers. The name of a layer's class says nothing certain.

A trial needs no weights of the model: the layer computes with random numbers in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Completions and tokens of a trial.
ROWS, TOKENS = 2, 3
#: Width of a trial's embedding.
WIDTH = 4
#: Numbers of a parameter that is copied for each completion: a norm has fewer, and copies take memory.
LARGEST = 2**20
#: Two ways of computing the same may differ by this much, relative and absolute, in float32.
RELATIVE, ABSOLUTE = 1e-4, 1e-5


@contextmanager
def in_place_of_parameters(module: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module compute with other tensors than its parameters: an attribute of the instance hides a parameter."""
    module.__dict__.update(tensors)
    try:
        yield
    finally:
        for name in tensors:
            del module.__dict__[name]


def one_copy_each(parameter: Tensor, dimensions: int, copies: int) -> Tensor:
    """A parameter as one copy for each completion, to be broadcast against the layer's inputs.

    Parameters
    ----------
    parameter : (*S) tensor
    dimensions : int
        Of the inputs (B, ..., *S).
    copies : int
        B.

    Returns
    -------
    (B, 1, ..., *S) tensor, a view.
    """
    return parameter.expand(copies, *[1] * (dimensions - 1 - parameter.dim()), *parameter.shape)


def takes_a_copy_for_each_completion(module: nn.Module) -> bool:
    """Whether a layer can be given one copy of its parameters for each completion.

    That holds for norms, scales and shifts: each completion's output follows from its own input and its own copy. The
    gradient of a copy is then the gradient of one completion.
    """
    shapes = {name: _shape(parameter) for name, parameter in module.named_parameters(recurse=False)}
    if not shapes or next(module.children(), None) is not None or next(module.buffers(), None) is not None:
        return False  # buffers may be written to, as in a batch norm
    if max(math.prod(shape) for shape in shapes.values()) > LARGEST:
        return False
    longest = max(shapes.values(), key=len)
    generator = torch.Generator().manual_seed(1)  # the random state of training is not touched
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
    except Exception:  # a layer of somebody else's may raise anything where it cannot be called so
        return False
    return True


def is_scaled_embedding(module: nn.Embedding) -> bool:
    """Whether an embedding with a forward pass of its own looks up rows and multiplies them by `embed_scale`."""
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


def _shape(parameter: Tensor) -> tuple[int, ...]:
    """Shape of a parameter, of which ZeRO-3 holds a part."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))
