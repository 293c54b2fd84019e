"""The arms of a study to which a surface over the weights is fitted, and whether there are enough of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from reward_ablation.study.canonical import dump
from reward_ablation.study.run_spec import ArmSpec

#: Designs whose weights may have more values than on and off.
DESIGNS = {"simplex", "list"}

#: Number of digits that count when shares of weights are compared.
DIGITS = 9


class SurfaceArms(NamedTuple):
    """Arms that differ only in their weights.

    Attributes
    ----------
    shares : dict of str to tuple of float
        By arm, each component's share of the sum of the weights.
    components : list of str
        Names of the components, in the order of the shares.
    left_out : list of str
        Arms that the surface is not fitted to, except the control.
    """

    shares: dict[str, tuple[float, ...]]
    components: list[str]
    left_out: list[str]


def arms_with_equal_settings(specs: Mapping[str, ArmSpec]) -> list[str]:
    """The largest group of arms whose specs differ only in the weights."""
    settings = {arm: dump(spec.model_copy(update={"weights": {}}).content()) for arm, spec in specs.items()}
    [(most, _)] = Counter(settings.values()).most_common(1) or [("", 0)]
    return [arm for arm in specs if settings[arm] == most]


def least_points(components: int) -> int:
    """Smallest number of arms with different shares: two more than the terms of Scheffé's quadratic model.

    The surface should be better than that model.
    """
    return components * (components + 1) // 2 + 2


def surface_arms(
    design: str,
    specs: Mapping[str, ArmSpec],
    seeds: Mapping[str, int],
    components: Collection[str],
    control: str | None,
) -> SurfaceArms | None:
    """The largest group of arms whose specs differ only in their weights, which are fixed and at least 0.

    None for a design not in `DESIGNS`, for fewer arms than `least_points`, and if each arm has one seed, because one
    seed does not show the noise between seeds.

    Parameters
    ----------
    design : str
        The study's design.
    specs : mapping of str to ArmSpec
        Specs by arm. Arms that share their runs are listed once.
    seeds : mapping of str to int
        Number of seeds by arm.
    components : collection of str
        Names of the study's components.
    control : str or None
        The arm that is the control, which is left out.
    """
    if design not in DESIGNS or len(specs) < least_points(2) or max(seeds.values()) < 2:
        return None
    fixed = {
        arm: spec
        for arm, spec in specs.items()
        if arm != control and spec.combine is None and min(spec.weights.values()) >= 0
    }
    arms = {arm: specs[arm].weights for arm in arms_with_equal_settings(fixed)}
    used = [name for name in components if any(weights.get(name) for weights in arms.values())]
    shares = {
        arm: tuple(round(weights.get(name, 0.0) / sum(weights.values()), DIGITS) for name in used)
        for arm, weights in arms.items()
    }
    if len(used) < 2 or len(set(shares.values())) < least_points(len(used)):
        return None
    return SurfaceArms(shares, used, [arm for arm in specs if arm not in shares and arm != control])
