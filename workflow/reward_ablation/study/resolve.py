"""From a config to a study: validated, with its arms and runs resolved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_ablation.rewards.components.load import check_component, component_module
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.config import StudyConfig
from reward_ablation.study.config_errors import describe
from reward_ablation.study.designs import Arm
from reward_ablation.study.errors import StudyError
from reward_ablation.study.spec import arm_spec, canonical, key_of, study_spec


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained."""

    arm: str
    key: str
    seed: int
    spec: str

    @property
    def name(self) -> str:
        """`{arm}-{key}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.arm}-{self.key}/seed{self.seed}"


@dataclass(frozen=True)
class Study:
    """A validated config with its arms, its runs and what a user should be warned of.

    Attributes
    ----------
    config : StudyConfig
    root : Path
        Folder that relative paths in the config start from.
    arms : dict of str to Arm
        Arms by name, one weight per component each.
    keys : dict of str to str
        Key of each arm's spec.
    runs : dict of str to Run
        Runs by name, each once: arms with the same spec share theirs.
    train_code : str
        Digest of the code that trains a run, the components' included.
    warnings : list of str
    """

    config: StudyConfig
    root: Path
    arms: dict[str, Arm]
    keys: dict[str, str]
    runs: dict[str, Run]
    train_code: str
    warnings: list[str]

    def runs_of(self, arm: str) -> list[Run]:
        """The arm's runs, by seed; another arm's where that has the same spec."""
        owner = next(name for name in self.arms if self.keys[name] == self.keys[arm])
        return [self.runs[f"{owner}-{self.keys[arm]}/seed{seed}"] for seed in self.config.seeds]


def resolve(config: dict[str, Any], file: str, root: Path) -> Study:
    """Validate a config and resolve its arms into runs.

    Parameters
    ----------
    config : dict
        The config as read from YAML.
    file : str
        Its name, for messages.
    root : Path
        Folder that relative paths in it start from.

    Raises
    ------
    StudyError
        `file: key: what is wrong; what is allowed`.
    """
    try:
        study = StudyConfig.model_validate(config)
    except ValidationError as error:
        raise StudyError(f"{file}: {describe(error, config)}") from None
    try:
        arms = study.expanded_arms()
        if study.baseline is not None and study.baseline not in arms:
            raise ValueError(f"baseline: unknown arm '{study.baseline}'; arms here: {', '.join(arms)}")
        for name, component in study.components.items():
            check_component(f"components.{name}", component.function, component.parameters, root)
        shared = study_spec(study, root)
    except ValueError as error:  # StudyError included
        raise StudyError(f"{file}: {error}") from None
    specs = {name: arm_spec(shared, arm) for name, arm in arms.items()}
    keys = {name: key_of(spec) for name, spec in specs.items()}
    owners = {key: next(name for name in arms if keys[name] == key) for key in keys.values()}
    runs = [
        Run(arm, key, seed, canonical({**specs[arm], "seed": seed})) for key, arm in owners.items() for seed in study.seeds
    ]
    modules = {component_module(component.function) for component in study.components.values()}
    return Study(
        config=study,
        root=root,
        arms=arms,
        keys=keys,
        runs={run.name: run for run in runs},
        train_code=code_digest("reward_ablation.training", *sorted(modules - {None})),
        warnings=same_arms(specs, keys),
    )


def same_arms(specs: dict[str, dict[str, Any]], keys: dict[str, str]) -> list[str]:
    """Warnings of arms that are one: same spec, or weights that differ by a factor that scaling takes out."""
    first_with: dict[str, str] = {}
    first_direction: dict[str, str] = {}
    warnings = []
    for name, spec in specs.items():
        direction = canonical({**spec, "weights": direction_of(spec["weights"])})
        if keys[name] in first_with:
            warnings.append(f"arms {first_with[keys[name]]} and {name} have the same spec: they are one run per seed")
        elif spec["training"].get("scale_rewards", "group") != "none" and direction in first_direction:
            warnings.append(
                f"arms {first_direction[direction]} and {name} differ only in the scale of their weights, "
                "which scaled advantages take out"
            )
        first_with.setdefault(keys[name], name)
        first_direction.setdefault(direction, name)
    return warnings


def direction_of(weights: dict[str, float]) -> dict[str, float]:
    """Weights divided by the largest absolute one, rounded to 12 digits."""
    largest = max(abs(weight) for weight in weights.values())
    return {name: round(weight / largest, 12) for name, weight in weights.items()}
