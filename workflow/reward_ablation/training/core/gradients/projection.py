"""Folding, by count sketches: a gradient as a few numbers that preserve inner products.

`recorder` folds by it where the gradients of a step's micro-batches or processes are never in memory together. Each
number of a gradient gets a random sign and is added to one of M sums. Inner products of sums estimate those of
gradients a and b without bias, with a standard error of |a||b| / sqrt(M), and up to 1.4 times this where they are
parallel (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2004; Weinberger et al., arXiv
0902.2206). The sums of micro-batches and of processes add up.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import torch
from torch import Tensor

#: Length of the table of signs, a free choice. A prime, so that the signs do not repeat in step with a weight's rows.
SIGNS = 1_048_573


@cache
def _signs(device: torch.device) -> Tensor:
    """Random signs, the same in every study, by a seed of free choice; twice, so that a slice can run past the end."""
    generator = torch.Generator().manual_seed(20041026)
    signs = torch.randint(0, 2, (SIGNS,), generator=generator, dtype=torch.int8) * 2 - 1
    return torch.cat([signs, signs]).to(device)


def _signs_from(start: int, count: int, like: Tensor) -> Tensor:
    """So many signs from an index on, as if the table had no end."""
    table = _signs(like.device)
    if count <= SIGNS:
        return table[start % SIGNS :][:count].to(like.dtype)
    return table[:SIGNS].roll(-(start % SIGNS)).repeat(-(-count // SIGNS))[:count].to(like.dtype)


def offset_of(parameter: str) -> int:
    """Where a parameter's signs start in the table: derived from its name, and therefore the same in every run."""
    return crc32(parameter.encode())


def add_projection(sums: Tensor, values: Tensor, start: int, offset: int) -> None:
    """Add (V, n) contiguous numbers of V flattened gradients of a parameter, from index `start`, to their (V, M) sums.

    Sum j collects the numbers whose index is j modulo M. If M is at least the parameter's size, products are exact.
    """
    size = sums.size(1)
    signed = values.to(sums.dtype) * _signs_from(offset + start, values.size(1), sums)
    place = start % size
    first = min(-place % size, signed.size(1))  # numbers until the index is a multiple of `size`
    if first:
        sums[:, place : place + first] += signed[:, :first]
    rounds = (signed.size(1) - first) // size
    if rounds:
        sums += signed[:, first : first + rounds * size].unflatten(1, (rounds, size)).sum(1)
    rest = signed[:, first + rounds * size :]
    sums[:, : rest.size(1)] += rest


def add_projected_rows(sums: Tensor, values: Tensor, rows: Tensor, offset: int) -> None:
    """Add V gradients, (V, U, H), of a matrix's `rows`, (U,) indices, to (V, M) sums, as `add_projection` would."""
    width = values.size(2)
    places = rows[:, None] * width + torch.arange(width, device=rows.device)
    signs = _signs(rows.device)[(places + offset) % SIGNS].to(sums.dtype)
    sums.index_add_(1, (places % sums.size(1)).flatten(), (values.to(sums.dtype) * signs).flatten(1))
