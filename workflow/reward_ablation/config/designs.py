"""Designs: generators of arms, by the key `arms` of the config.

`study.resolve` expands the study's design by way of `config.study_config`. An arm is a name and one weight per
component (0: not trained on), plus optional overrides of training, combination, launch and resources. Each design model
is one way to write down a set of arms.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import combinations
from math import comb
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, field_validator

from reward_ablation.config.base import Name, PositiveInt, Section, Seed
from reward_ablation.config.sections.launch import LaunchChanges, Resources
from reward_ablation.config.sections.training import Combine
from reward_ablation.config.trl_settings import GrpoSettings

Weights = dict[Name, FiniteFloat]

#: Most arms of the design `simplex`, a free choice; `factorial` is limited by its number of weights.
MOST_ARMS = 100_000
#: Up to this many arms are all named. Of more arms, the message names those with the most similar names.
MOST_NAMED = 12


class Arm(Section):
    """One weight per component that is trained on, and settings that differ from the study's."""

    weights: Weights
    combine: Combine | None = Field(None, description="Method of combination; default: TRL's, as training sets it.")
    training: GrpoSettings = Field(default_factory=dict, description="GRPOConfig overrides of this arm.")
    launch: LaunchChanges = Field(LaunchChanges(), description="Layout of this arm's runs, where it differs.")
    resources: Resources = Field(
        default_factory=dict,
        description="Snakemake's resources of this arm's training jobs, such as mem_mb and runtime.",
    )


class DesignBase(Section):
    """Keys that every design has besides its arms, which `generate` makes. `components` are the study's, in order."""

    seeds: dict[Name, list[Seed]] = Field(
        default_factory=dict,
        description="Seeds of single arms; default the study's. An arm with an empty list is left out of the study.",
    )

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: dict[str, list[int]]) -> dict[str, list[int]]:
        for arm, of_arm in seeds.items():
            if len(set(of_arm)) < len(of_arm):
                raise ValueError(f"arm '{arm}' has a seed twice; each seed is one run")
        return seeds


class ListDesign(DesignBase):
    """The arms as they are written down."""

    design: Literal["list"]
    arms: dict[Name, Arm] = Field(min_length=1)

    def generate(self, components: list[str]) -> dict[str, Arm]:
        return dict(self.arms)


class GeneratedDesign(DesignBase):
    """A design that makes its arms from weights. Further arms, such as a control, are written down."""

    extra: dict[Name, Arm] = Field(default_factory=dict, description="Arms besides those that the design makes.")


class LeaveOneOut(GeneratedDesign):
    """All components at their weights (arm `full`), then each of them left out (`no_<component>`)."""

    design: Literal["leave_one_out"]
    weights: Weights = Field(min_length=2)

    def generate(self, components: list[str]) -> dict[str, Arm]:
        arms = {"full": Arm(weights=self.weights)}
        for left_out in _in_order(self.weights, components):
            kept = {name: weight for name, weight in self.weights.items() if name != left_out}
            arms[f"no_{left_out}"] = Arm(weights=kept)
        return arms


class OneAtATime(GeneratedDesign):
    """Each component alone at its weight (`only_<component>`)."""

    design: Literal["one_at_a_time"]
    weights: Weights = Field(min_length=1)

    def generate(self, components: list[str]) -> dict[str, Arm]:
        return {f"only_{name}": Arm(weights={name: self.weights[name]}) for name in _in_order(self.weights, components)}


class Factorial(GeneratedDesign):
    """Every subset of the components at their weights (arms such as `format_length`), except the empty one.

    The empty subset's result is the base model's, which every study evaluates.
    """

    design: Literal["factorial"]
    weights: Weights = Field(min_length=1, max_length=10)

    def generate(self, components: list[str]) -> dict[str, Arm]:
        names = _in_order(self.weights, components)
        subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]
        return _distinct(
            ("_".join(subset), Arm(weights={name: self.weights[name] for name in subset})) for subset in subsets
        )


class Simplex(GeneratedDesign):
    """Weights on a grid that sum to 1: every multiple of 1 / steps (arms such as `format1_length3`)."""

    design: Literal["simplex"]
    steps: PositiveInt = Field(description="Intervals of the grid: 4 gives weights 0, 0.25, 0.5, 0.75, 1.")
    components: list[Name] | None = Field(
        None, min_length=2, description="Default: all components that are scored everywhere."
    )

    def generate(self, components: list[str]) -> dict[str, Arm]:
        names = self.components or components
        if not names:
            raise ValueError(
                "arms.components: missing, and its default, the components scored everywhere, is none; list two or more"
            )
        if (count := comb(self.steps + len(names) - 1, len(names) - 1)) > MOST_ARMS:
            raise ValueError(
                f"arms.steps: {self.steps} steps with {len(names)} components give {count} arms; at most {MOST_ARMS}"
            )
        arms = []
        for parts in _compositions(self.steps, len(names)):
            used = {name: part for name, part in zip(names, parts, strict=True) if part}
            weights = {name: part / self.steps for name, part in used.items()}
            arms.append(("_".join(f"{name}{part}" for name, part in used.items()), Arm(weights=weights)))
        return _distinct(arms)


Design = Annotated[ListDesign | LeaveOneOut | OneAtATime | Factorial | Simplex, Field(discriminator="design")]


def expand(design: Design, components: list[str], everywhere: list[str]) -> dict[str, Arm]:
    """Arms by name with a weight for every component. A `simplex` that names none varies those scored `everywhere`."""
    by_design = design.generate(everywhere if isinstance(design, Simplex) else components)
    extra = {} if isinstance(design, ListDesign) else design.extra
    if taken := [name for name in extra if name in by_design]:
        raise ValueError(f"arms.extra.{taken[0]}: the design makes an arm of this name; give this arm another name")
    arms = {}
    key_of_design = "arms.components" if isinstance(design, Simplex) else "arms.weights"
    for name, arm in (by_design | extra).items():
        is_written = isinstance(design, ListDesign) or name in extra
        key = f"{key_of_arm(design, name)}.weights" if is_written else key_of_design
        unknown = [component for component in arm.weights if component not in components]
        if unknown:
            raise ValueError(f"{key}: unknown component '{unknown[0]}'; components here: {', '.join(components)}")
        if not any(arm.weights.values()):
            raise ValueError(f"{key}: all weights are 0; an arm needs one component to train on")
        weights = {component: float(arm.weights.get(component, 0.0)) for component in components}
        arms[name] = arm.model_copy(update={"weights": weights})
    return arms


def without_left_out(design: Design, arms: dict[str, Arm]) -> dict[str, Arm]:
    """The arms that have seeds. An unknown arm in `arms.seeds`, or no arm that is left, is a ValueError."""
    for name in design.seeds:
        if name not in arms:
            raise ValueError(f"arms.seeds.{name}: unknown arm; {arms_here(name, arms)}")
    kept = {name: arm for name, arm in arms.items() if design.seeds.get(name) != []}
    if not kept:
        raise ValueError("arms.seeds: leaves out all arms; give one of them seeds")
    return kept


def key_of_arm(design: Design, arm: str) -> str:
    """Dotted key of an arm that the user has written down."""
    return f"arms.{'arms' if isinstance(design, ListDesign) else 'extra'}.{arm}"


def _in_order(weights: Weights, components: list[str]) -> list[str]:
    """Components with weights in the study's order. Unknown components come last; `expand` refuses them."""
    known = [name for name in components if name in weights]
    return known + [name for name in weights if name not in components]


def _distinct(arms: Iterable[tuple[str, Arm]]) -> dict[str, Arm]:
    """Arms by name. Two arms of one name, such as `a_b` of `a` and `b` and of a component `a_b`, are refused."""
    by_name: dict[str, Arm] = {}
    for name, arm in arms:
        if name in by_name:
            one, other = (" and ".join(each.weights) for each in (by_name[name], arm))
            raise ValueError(f"arms: the arms of {one} and of {other} are both called {name}; rename a component")
        by_name[name] = arm
    return by_name


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` non-negative integers, largest first part first."""
    if parts == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total, -1, -1) for rest in _compositions(total - first, parts - 1)]


def arms_here(wrong: str, arms: Collection[str]) -> str:
    """All names, or of many those that a user may have meant, for the end of a message about a wrong name."""
    if len(arms) <= MOST_NAMED:
        return f"arms here: {', '.join(arms)}"
    near = difflib.get_close_matches(wrong, arms, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}there are {len(arms)} arms, such as {', '.join(list(arms)[:3])}"
