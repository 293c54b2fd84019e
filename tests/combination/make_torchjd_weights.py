"""Makes torchjd_weights.json: weights of components from Gram matrices, by torchjd 0.18.0 and its solvers.

Needs more packages than the tests do, so it runs by hand, in a throw-away folder of packages:

    pip install --target FOLDER --no-deps torchjd==0.18.0 quadprog qpsolvers ecos clarabel
    pip install --target FOLDER --no-deps cvxpy osqp scs qdldl sparsediffpy
    PYTHONPATH=FOLDER python tests/combination/make_torchjd_weights.py
"""

import itertools
import json
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torchjd.aggregation import CAGradWeighting, MGDAWeighting, PCGradWeighting, UPGradWeighting
from torchjd.aggregation._nash_mtl import _NashMTLWeighting
from torchjd.linalg import QuadprogProjector

FILE = Path(__file__).with_name("torchjd_weights.json")


def grams():
    """Random Gram matrices of 1 to 6 gradients, of full rank and of lower rank."""
    generator = np.random.default_rng(0)
    for count in range(1, 7):
        for rank in sorted({count + 4, count, max(1, count - 1)}, reverse=True):
            for _ in range(2):
                gradients = generator.standard_normal((count, rank)) * generator.uniform(0.5, 2, (count, 1))
                yield rank >= count, gradients @ gradients.T


def scaled(gram: np.ndarray) -> torch.Tensor:
    """With trace K: torchjd has absolute tolerances."""
    return torch.from_numpy(gram / (np.trace(gram) / len(gram)))


def pcgrad(gram: torch.Tensor) -> torch.Tensor:
    """Mean over all orders in which torchjd may draw the others."""
    every = []
    for order in itertools.permutations(range(len(gram))):
        with patch("torch.randperm", lambda _, order=order: torch.tensor(order)):
            every.append(PCGradWeighting()(gram))
    return torch.stack(every).mean(0) / len(gram)


def nash_mtl(gram: torch.Tensor) -> torch.Tensor:
    weighting = _NashMTLWeighting(n_tasks=len(gram), max_norm=0.0, update_weights_every=1, optim_niter=200)
    return weighting(torch.linalg.cholesky(gram))


def weights_of(full_rank: bool, gram: torch.Tensor, preferences: torch.Tensor) -> dict:
    projector = QuadprogProjector(reg_eps=1e-10)
    rules = {
        "mgda": lambda: MGDAWeighting(epsilon=1e-9, max_iters=20_000)(gram),
        "upgrad": lambda: UPGradWeighting(projector=projector)(gram),
        "upgrad_preferences": lambda: UPGradWeighting(preferences, projector=projector)(gram),
        "pcgrad": lambda: pcgrad(gram),
        "cagrad": lambda: CAGradWeighting(c=0.5)(gram),
    }
    if full_rank and len(gram) > 1:
        rules["nash_mtl"] = lambda: nash_mtl(gram)
    found = {name: [round(value, 10) for value in rule().tolist()] for name, rule in rules.items()}
    if set(found.get("nash_mtl", [])) == {1.0}:  # its solver has failed
        del found["nash_mtl"]
    return found


def main() -> None:
    warnings.filterwarnings("ignore")
    cases = []
    for full_rank, gram in grams():
        preferences = torch.arange(1, len(gram) + 1, dtype=torch.float64)
        found = weights_of(full_rank, scaled(gram), preferences / preferences.sum())
        cases.append({"gram": gram.tolist(), "full_rank": full_rank, "weights": found})
        print(len(cases), found, flush=True)
    FILE.write_text(json.dumps(cases, indent=None, separators=(",", ":")).replace('{"gram"', '\n{"gram"') + "\n")


if __name__ == "__main__":
    main()
