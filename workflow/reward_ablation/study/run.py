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
    """`training_digest` of these functions of components, worked out once."""
    return training_digest(functions)


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained.

    `arm` is the first arm of the spec, and `launch` are its processes and resources. `spec` is canonical JSON, as the
    rule's param has it, and `arm_spec` the same but for the seed. `folder` is `{arm}-{key}`, of another arm where the
    runs of this spec were trained under its name.
    """

    arm: str
    key: str
    seed: int
    spec: str
    arm_spec: ArmSpec
    folder: str
    launch: Launch
    #: Digest of the code that decides its numbers: the core's, and that of the components that score it.
    code: str

    @property
    def name(self) -> str:
        """`{folder}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.folder}/seed{self.seed}"


def folders_of(keys: dict[str, str], present: Iterable[str]) -> dict[str, str]:
    """Folder below `runs/` of each key: one for all arms that have the same spec.

    A job on another machine comes to the same: what the workflow itself makes is the first choice.

    Parameters
    ----------
    keys : dict of str to str
        Key of each arm's spec.
    present : iterable of str
        Names of the folders that are there. A folder of the key that has the name of none of its arms is taken
        where there is no other: an arm was renamed, and its runs need no training.
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
