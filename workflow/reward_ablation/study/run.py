"""A run of a study: its arm and seed, its folder, and the digest of the code that decides its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.config.sections.launch import Launch
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.run_spec import ArmSpec


@cache
def run_code(functions: tuple[str, ...]) -> str:
    """`training_digest` of these functions of components, computed only once."""
    return training_digest(functions)


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained.

    Attributes
    ----------
    arm : str
        The first of the arms that have the run's spec.
    key : str
        Key of the arm's spec.
    seed : int
        The run's seed.
    spec : str
        The run's spec as canonical JSON: the rule's param.
    arm_spec : ArmSpec
        The spec without the seed.
    folder : str
        `{arm}-{key}`. The arm is a different one if the runs of this spec were trained under that arm's name.
    launch : Launch
        The run's processes and resources.
    code : str
        Digest of the code that decides the run's numbers: of the core, and of the components that score the run.
    """

    arm: str
    key: str
    seed: int
    spec: str
    arm_spec: ArmSpec
    folder: str
    launch: Launch
    code: str

    @property
    def name(self) -> str:
        """`{folder}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.folder}/seed{self.seed}"


def folders_of(keys: dict[str, str], present: Iterable[str]) -> dict[str, str]:
    """Folder below `runs/` of each key. All arms with the same spec share a folder.

    The first choice is a folder that the workflow itself creates, so that a job on another machine gets the same
    result.

    Parameters
    ----------
    keys : dict of str to str
        Key of each arm's spec.
    present : iterable of str
        Names of the existing folders. If the only folders of a key are named after other arms, the first of these is
        taken: an arm was renamed, and its runs need no training.
    """
    named: dict[str, list[str]] = {key: [] for key in keys.values()}
    for arm, key in keys.items():
        named[key].append(f"{arm}-{key}")
    of_key: dict[str, list[str]] = {key: [] for key in named}
    for folder in sorted(present):
        name, _, key = folder.rpartition("-")
        if key in of_key and re.fullmatch(NAME_PATTERN, name):
            of_key[key].append(folder)
    return {
        key: next((folder for folder in own if folder in of_key[key]), (of_key[key] or own)[0])
        for key, own in named.items()
    }
