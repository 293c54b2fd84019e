"""The arms of a study that a surface over the weights is fitted to, and whether they are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from reward_ablation.study.canonical import dump
from reward_ablation.study.run_spec import ArmSpec

#: Designs whose weights have more values than on and off.
DESIGNS = {"simplex", "list"}

#: Digits to which shares of weights are compared.
DIGITS = 9


class SurfaceArms(NamedTuple):
    """Arms that differ in their weights alone.

    Attributes
    ----------
    shares : dict of str to tuple of float
        Shares of the weights by arm.
    components : list of str
        Components that the shares are of.
    left_out : list of str
        Other arms.
    """

    shares: dict[str, tuple[float, ...]]
    components: list[str]
    left_out: list[str]


def alike(specs: Mapping[str, ArmSpec]) -> list[str]:
    """Arms that differ in their weights alone: the largest group with equal specs but for the weights."""
    settings = {arm: dump(spec.model_copy(update={"weights": {}}).content()) for arm, spec in specs.items()}
    [(most, _)] = Counter(settings.values()).most_common(1) or [("", 0)]
    return [arm for arm in specs if settings[arm] == most]


def least_points(components: int) -> int:
    """Fewest different shares: two more than Scheffé's quadratic model has terms, which the surface should surpass."""
    return components * (components + 1) // 2 + 2


def surface_arms(
    design: str,
    specs: Mapping[str, ArmSpec],
    seeds: Mapping[str, int],
    components: Collection[str],
    control: str | None,
) -> SurfaceArms | None:
    """The largest group of arms with fixed weights that are at least 0 and with equal specs but for the weights.

    None for other designs, fewer arms than `least_points`, or one seed, which says nothing of the noise of seeds.

    Parameters
    ----------
    specs : mapping of str to ArmSpec
        By arm; arms that share their runs are there once.
    seeds : mapping of str to int
        Seeds of each arm.
    """
    if design not in DESIGNS or len(specs) < least_points(2) or max(seeds.values()) < 2:
        return None
    fixed = {
        arm: spec
        for arm, spec in specs.items()
        if arm != control and spec.combine is None and min(spec.weights.values()) >= 0
    }
    arms = {arm: specs[arm].weights for arm in alike(fixed)}
    used = [name for name in components if any(weights.get(name) for weights in arms.values())]
    shares = {
        arm: tuple(round(weights.get(name, 0.0) / sum(weights.values()), DIGITS) for name in used)
        for arm, weights in arms.items()
    }
    if len(used) < 2 or len(set(shares.values())) < least_points(len(used)):
        return None
    return SurfaceArms(shares, used, [arm for arm in specs if arm not in shares and arm != control])
