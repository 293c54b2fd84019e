"""Warnings about arms that are the same arm under two names."""

from __future__ import annotations

from typing import Any

from reward_ablation.spec.canonical import dump


def same_arms(specs: dict[str, dict[str, Any]], keys: dict[str, str]) -> list[str]:
    """Warnings about arms with the same spec, or with weights that differ only by a factor that scaling removes.

    `specs` and `keys` are the specs' content and their keys, by arm.
    """
    first_with: dict[str, str] = {}
    first_direction: dict[str, str] = {}
    warnings = []
    for name, spec in specs.items():
        direction = dump({**spec, "weights": direction_of(spec["weights"])})
        if keys[name] in first_with:
            warnings.append(f"arms {first_with[keys[name]]} and {name} have the same spec: they are one run per seed")
        elif direction in first_direction and scales(spec["training"]) and "combine" not in spec:
            warnings.append(
                f"arms {first_direction[direction]} and {name} differ only in the scale of their weights, "
                "which scaled advantages take out"
            )
        first_with.setdefault(keys[name], name)
        first_direction.setdefault(direction, name)
    return warnings


def scales(training: dict[str, Any]) -> bool:
    """Whether advantages are scaled, so that a common factor of the weights has no effect."""
    return training.get("scale_rewards", "group") not in ("none", False) and training.get("num_generations") != 1


def direction_of(weights: dict[str, float]) -> dict[str, float]:
    """Weights divided by the largest absolute weight, rounded to 12 digits."""
    largest = max(abs(weight) for weight in weights.values())
    return {name: round(weight / largest, 12) for name, weight in weights.items()}
