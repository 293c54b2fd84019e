"""Checks of a study's control, the arm that is rewarded at random, and of components that only some arms score."""

from __future__ import annotations

from reward_ablation.config.arm_names import arms_here
from reward_ablation.config.designs import Arm
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import without_tracking

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
