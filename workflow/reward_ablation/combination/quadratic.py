"""Small quadratic programmes over a Gram matrix, by non-negative least squares, for CAGrad, MGDA and UPGrad.

CAGrad and MGDA call `simplex_minimum`, and UPGrad calls `nearest_above`.

Both are solved with every gradient scaled to length 1, so that gradients of very different lengths lose no digits. Gram
matrices must have a positive diagonal and be positive semi-definite up to rounding.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def nearest_above(gram: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """``argmin v' gram v`` over ``v >= floor``, for a (K, K) Gram matrix and (K,) non-negative floors."""
    lengths, root = _unit_root(gram)
    excess, _ = nnls(root, -root @ (floor * lengths), maxiter=1000 * len(gram))
    return floor + excess / lengths


def simplex_minimum(gram: np.ndarray) -> np.ndarray:
    """``argmin v' gram v`` over ``v >= 0`` that sum to 1, for a (K, K) Gram matrix.

    Along each ray the least value of ``u' gram u + (sum u - 1) ** 2`` is ``q / (1 + q)``, where q is the value of
    ``v' gram v`` at the point of the ray that sums to 1. The minimum over all ``u >= 0`` is therefore on the ray of the
    solution, also if the sum is scaled, as here.
    """
    lengths, root = _unit_root(gram)
    row = 1 / lengths
    system = np.vstack([root, row / np.linalg.norm(row)])
    found, _ = nnls(system, np.append(np.zeros(len(gram)), 1.0), maxiter=1000 * len(gram))
    on_simplex = found / lengths
    return on_simplex / on_simplex.sum()


def _unit_root(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the gradients, and a matrix R with ``R'R`` the cosines."""
    lengths = np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
    return lengths, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
