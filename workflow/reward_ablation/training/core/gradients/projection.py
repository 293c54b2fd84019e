"""A gradient in a few numbers that keep inner products: count sketches.

Each number gets a random sign and adds to one of a few sums. Inner products of sums estimate inner products of
gradients without bias, with a standard error of |a||b| / sqrt(sums) (Charikar, Chen and Farach-Colton, "Finding
frequent items in data streams", 2004; Weinberger et al., arXiv 0902.2206). Sums add up over micro-batches and
processes.

Sketching all numbers of each component's gradient would cost by the component. So a matrix's units are sketched
first, for each completion, on the gradients of the layer's outputs: the gradient of the sums of units is that of a
smaller matrix. It keeps inner products less well, the less, the lower the gradient's rank.
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor

#: Length of the table of signs, a prime: signs repeat in no pattern that a weight has.
SIGNS = 1_048_573


@cache
def _signs(device: torch.device) -> Tensor:
    """Random signs, the same in every study, twice in a row so that a slice can run past the end."""
    generator = torch.Generator().manual_seed(20041026)
    signs = torch.randint(0, 2, (SIGNS,), generator=generator, dtype=torch.int8) * 2 - 1
    return torch.cat([signs, signs]).to(device)


def _signs_from(start: int, count: int, like: Tensor) -> Tensor:
    table = _signs(like.device)
    if count <= SIGNS:
        return table[start % SIGNS :][:count].to(like.dtype)
    return table[:SIGNS].roll(-(start % SIGNS)).repeat(-(-count // SIGNS))[:count].to(like.dtype)


def offset_of(parameter: str) -> int:
    """Where a parameter's signs start in the table: by its name, so that it is the same in every run."""
    return crc32(parameter.encode())


def add_projection(sums: Tensor, values: Tensor, start: int, offset: int) -> None:
    """Add a contiguous part of flattened gradients to their sums.

    Parameters
    ----------
    sums : (V, M) tensor
        Number j collects the entries whose place in the flattened parameter is j modulo M. With M at least
        the parameter's size this keeps everything: inner products are exact.
    values : (V, n) tensor
        Entries from place `start` on.
    start : int
    offset : int
        `offset_of` the parameter.
    """
    size = sums.size(1)
    signed = values.to(sums.dtype) * _signs_from(offset + start, values.size(1), sums)
    place = start % size
    first = min(-place % size, signed.size(1))  # up to where the sums start anew
    if first:
        sums[:, place : place + first] += signed[:, :first]
    rounds = (signed.size(1) - first) // size
    if rounds:
        sums += signed[:, first : first + rounds * size].unflatten(1, (rounds, size)).sum(1)
    rest = signed[:, first + rounds * size :]
    sums[:, : rest.size(1)] += rest


def units_kept(units: int) -> int:
    """Sums that the units of a matrix are folded to: a small part of them; a vocabulary has more than a layer."""
    return min(units, max(8, min(32, units // 8), min(256, units // 64)))


def fold_units(values: Tensor, sums: int, start: int, offset: int) -> Tensor:
    """Add up units under random signs, (..., n) -> (..., sums). The first one's number is a multiple of `sums`."""
    signed = values * _signs_from(offset + start, values.size(-1), values)
    missing = -values.size(-1) % sums
    padded = F.pad(signed, (0, missing)) if missing else signed
    return padded.unflatten(-1, (-1, sums)).sum(-2)


def add_folded_rows(folded: Tensor, values: Tensor, units: Tensor, offset: int) -> None:
    """Add rows of some units of a matrix to their sums, as `fold_units` would.

    Parameters
    ----------
    folded : (B, S, H) tensor
    values : (B, L, H) tensor
    units : (B, L) tensor of int
    offset : int
    """
    signs = _signs(units.device)[(units + offset) % SIGNS].to(values.dtype)
    places = (units % folded.size(1))[:, :, None].expand_as(values)
    folded.scatter_add_(1, places, values * signs[:, :, None])


def add_projected_rows(sums: Tensor, values: Tensor, rows: Tensor, offset: int) -> None:
    """Add some rows of gradients of a matrix to their sums, as `add_projection` would.

    Parameters
    ----------
    sums : (V, M) tensor
    values : (V, U, H) tensor
        U rows of gradients of a matrix with H columns.
    rows : (U,) tensor of int
        Which rows of the matrix they are.
    offset : int
    """
    width = values.size(2)
    places = rows[:, None] * width + torch.arange(width, device=rows.device)
    signs = _signs(rows.device)[(places + offset) % SIGNS].to(sums.dtype)
    sums.index_add_(1, (places % sums.size(1)).flatten(), (values.to(sums.dtype) * signs).flatten(1))
