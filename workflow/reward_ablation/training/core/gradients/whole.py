"""Whole gradients as rldynamics lays them out: `gradients_step_N.npz` with keys `component/parameter`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from torch import Tensor

from reward_ablation.system.files import atomic_path


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays by name; a reader never sees half a file."""
    with atomic_path(path, durable=False) as temporary, temporary.open("wb") as file:  # a path would get another ending
        np.savez(file, **arrays)  # type: ignore[arg-type]


class GradientWriter:
    """Writes one step's gradients while the next one is trained; one at a time, so that memory is bounded.

    Parameters
    ----------
    folder : Path
    shapes : dict of str to tuple
        Of the parameters.
    """

    def __init__(self, folder: Path, shapes: dict[str, tuple[int, ...]]):
        self.folder = folder
        self.shapes = shapes
        self._thread = ThreadPoolExecutor(1)
        self._last: Future | None = None

    def write(self, step: int, components: list[str], vectors: dict[str, Tensor]) -> None:
        """Write the gradients of K components, (K, P) for each parameter; an earlier step's is waited for."""
        self.wait()
        arrays = {
            f"{component}/{parameter}": of_parameter[k].float().cpu().numpy().reshape(self.shapes[parameter])
            for parameter, of_parameter in vectors.items()
            for k, component in enumerate(components)
        }
        self._last = self._thread.submit(save, self.folder / f"gradients_step_{step}.npz", arrays)

    def wait(self) -> None:
        """Wait for what is being written; raises what went wrong."""
        if self._last is not None:
            self._last.result()
            self._last = None
