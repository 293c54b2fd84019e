"""Refuse a model whose weights have NaN or infinite values: its answers would be numbers that mean nothing."""

from __future__ import annotations

from pathlib import Path

from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.system.imports import large_imports


def first_not_finite(folder: Path) -> str | None:
    """Name of the first tensor with a NaN or infinite value in a folder's safetensors files; None if there is none."""
    with large_imports():
        from safetensors.torch import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                tensor = file.get_tensor(name)
                # Integers are finite, and torch cannot compare numbers of one byte.
                if not tensor.is_floating_point() or tensor.element_size() == 1 or not tensor.numel():
                    continue
                # The ends are NaN if any value is. Unlike isfinite, aminmax makes no copy of a large tensor.
                if not all(end.isfinite() for end in tensor.aminmax()):
                    return str(name)
    return None


def check_fetched(folder: Path, where: str) -> None:
    """Refuse a base model or a reward model with values that are not finite. `where` is what a message calls it."""
    if name := first_not_finite(folder):
        raise StudyError(
            f"{where}: the tensor {name} has values that are NaN or infinite; take another copy of the model or, "
            "after a supervised start, lower sft.training.learning_rate"
        )


def check_trained(folder: Path) -> None:
    """Raise `NotFinite` for a trained model with values that are not finite, before it is evaluated."""
    if name := first_not_finite(folder):
        raise NotFinite(f"the tensor {name} has values that are NaN or infinite")
