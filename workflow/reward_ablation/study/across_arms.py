"""Checks across arms: the control, which is rewarded at random, components that no arm scores, and equal arms."""

from __future__ import annotations

from typing import Any

from reward_ablation.config.designs import Arm, arms_here
from reward_ablation.config.sections.combine import AGGREGATION, TRL_AGGREGATIONS
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import without_tracking
from reward_ablation.spec.canonical import dump

#: The component function whose score does not depend on the completion.
CONTROL_FUNCTION = "random"


def check_control(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse a control that is not an arm, or that is the baseline."""
    if study.control is None:
        return
    if study.control not in arms:
        raise ValueError(f"control: unknown arm '{study.control}'; {arms_here(study.control, arms)}")
    if study.control == (study.baseline or next(iter(arms))):
        raise ValueError(
            f"control: '{study.control}' is the baseline, which the others are compared with; name another arm, or set "
            "baseline"
        )


def control_warnings(study: StudyConfig, arms: dict[str, Arm]) -> list[str]:
    """Warnings about a control that is rewarded for something, or trained with other settings than the baseline."""
    if study.control is None:
        return []
    control, baseline = arms[study.control], study.baseline or next(iter(arms))
    functions = {name: study.components[name].function for name, weight in control.weights.items() if weight}
    informative = [f"{name} ({function})" for name, function in functions.items() if function != CONTROL_FUNCTION]
    warnings = []
    if informative:
        warnings.append(
            f"control: arm {study.control} is trained on {', '.join(informative)}; a control is trained on components "
            f"with function: {CONTROL_FUNCTION} alone"
        )
    own, others = (without_tracking({**study.training, **arm.training}) for arm in (control, arms[baseline]))
    differing = sorted(name for name in own.keys() | others.keys() if own.get(name) != others.get(name))
    if differing:
        settings = ", ".join(f"training.{name}" for name in differing)
        warnings.append(
            f"control: arm {study.control} and the baseline {baseline} differ in {settings}; a control needs the "
            "baseline's settings, and as many steps"
        )
    return warnings


def check_scored(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse a component that no arm scores."""
    scored = {name for arm in arms.values() for name in study.scored_in(arm)}
    for name in study.components:
        if name not in scored:
            raise ValueError(
                f"components.{name}: scored: where_trained, and no arm has a weight on it; give an arm one, or take "
                "the component out"
            )


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
    """Whether advantages are scaled, so that a common factor of the weights has no effect.

    With one completion per prompt, the reward is the advantage, unscaled. TRL's `normalize_then_sum` scales the sum
    over the whole batch, whatever `scale_rewards` is.
    """
    scaled = training.get("scale_rewards", "group") not in ("none", False)
    normalizes_first = training.get(AGGREGATION) == TRL_AGGREGATIONS["gdpo"]
    return (scaled or normalizes_first) and training.get("num_generations") != 1


def direction_of(weights: dict[str, float]) -> dict[str, float]:
    """Weights divided by the largest absolute weight, rounded to 12 digits."""
    largest = max(abs(weight) for weight in weights.values())
    return {name: round(weight / largest, 12) for name, weight in weights.items()}
