"""Made-up generation batches for the tests of methods."""

from pathlib import Path

import numpy as np

from reward_ablation.combination.call import call_method
from reward_ablation.combination.interface import Combined
from reward_ablation.combination.load import load_method

#: Parameters without which a method does nothing, for three components `a`, `b` and `c`.
PARAMETERS = {
    "gate": {"b": {"needs": "a", "at_least": 0.5}},
    "schedule": {"b": {"0": 1.0, "10": 0.0}},
    "lagrangian": {"at_least": {"b": 0.6}},
}

BOUNDS = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])


def made_up(seed: int = 0, groups: int = 6, size: int = 8, components: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Scores in [0, 1], the first component's 0 or 1, and the numbers of the groups."""
    generator = np.random.default_rng(seed)
    scores = generator.random((groups * size, components))
    scores[:, 0] = scores[:, 0] > 0.5
    return scores, np.repeat(np.arange(groups), size)


def made_up_gram(components: int = 3, seed: int = 0, rank: int | None = None) -> np.ndarray:
    gradients = np.random.default_rng(seed).standard_normal((components, rank or components + 2))
    return gradients @ gradients.T


def context(components: int = 3, completions: int = 48) -> dict:
    """The context that `call_method` may pass to a method, for the components `a`, `b`, `c` and so on."""
    return {
        "names": tuple("abcdefgh"[:components]),
        "gram": made_up_gram(components),
        "step": 4,
        "bounds": np.tile([0.0, 1.0], (components, 1)),
        "tokens": np.arange(1, completions + 1) * 20,
        "learning_rate": 1e-6,
    }


def combine(method: str, parameters, scores, groups, weights, state, *, root: Path = Path(), **context) -> Combined:
    """Combine scores by a method, as a run does."""
    return call_method(load_method(method, root), method, parameters, scores, groups, weights, state, **context)
