"""Projections keep inner products: exactly if the projection is large enough, else within the stated error."""

import pytest
import torch

from reward_ablation.training.core.gradients.projection import add_projected_rows, add_projection, offset_of


def projected(values, size, parts=1, name="weight"):
    sums = torch.zeros(len(values), size, dtype=values.dtype)
    for part in torch.arange(values.size(1)).chunk(parts):
        add_projection(sums, values[:, part], int(part[0]), offset_of(name))
    return sums


def vectors(count, size, seed=0):
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_parts_and_rows_of_a_matrix_add_up_to_the_whole():
    values = vectors(2, 40 * 32).view(2, 40, 32)
    whole = projected(values.flatten(1), 101)
    assert torch.allclose(projected(values.flatten(1), 101, parts=7), whole, atol=1e-12)
    rows = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    sums = torch.zeros(2, 101, dtype=torch.float64)
    add_projected_rows(sums, values[:, rows], rows, offset_of("weight"))
    assert torch.allclose(sums, whole, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "outer products", "few large columns"])
def test_error_is_that_of_a_count_sketch(kind):
    """Root mean square error of an inner product below 1.5 |a||b| / sqrt(size), also for gradients of low rank."""
    errors = []
    for seed in range(40):
        values = vectors(2, 300 * 128, seed)
        if kind == "outer products":
            left, right = vectors(2, 300, seed), vectors(1, 128, seed + 1)
            values = (left[:, :, None] * right[:, None, :]).flatten(1)
        if kind == "few large columns":
            values.view(2, 300, 128)[:, :, :3] *= 30
        sums = projected(values, 509, name=f"weight {seed}")
        norms = values.norm(dim=1)
        errors.append(float((sums[0] @ sums[1] - values[0] @ values[1]) / (norms[0] * norms[1])))
    errors = torch.tensor(errors)
    assert errors.square().mean().sqrt() < 1.5 / 509**0.5
    assert errors.mean().abs() < 3 * errors.std() / len(errors) ** 0.5
