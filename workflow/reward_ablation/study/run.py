"""A run of a study: its arm and seed, its folder, and the digest of the code that decides its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.config.sections.launch import Launch
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.core_digest import training_digest


@cache
def run_code(functions: tuple[str, ...]) -> str:
    """`training_digest` of these functions of components, computed only once."""
    return training_digest(functions)


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained."""

    arm: str  # the first of the arms that have the run's spec
    key: str  # key of the arm's spec
    seed: int
    spec: str  # as canonical JSON: the rule's param
    arm_spec: ArmSpec  # the spec without the seed
    folder: str  # `{arm}-{key}`, with an earlier arm's name if the runs of this spec were trained under it
    launch: Launch
    code: str  # digest of the code that decides the run's numbers: of the core, and of the components that score it

    @property
    def name(self) -> str:
        """`{folder}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.folder}/seed{self.seed}"


def key_in(name: str) -> str:
    """The key in a run's name."""
    return name.partition("/")[0].rpartition("-")[2]


def folders_of(keys: dict[str, str], present: Iterable[str]) -> dict[str, str]:
    """Folder below `runs/` of each key. All arms with the same spec share a folder.

    `keys` has the key of each arm's spec, and `present` has the names of the existing folders. The first choice is a
    folder that the workflow itself creates, so that a job on another machine gets the same result. If the only folders
    of a key are named after other arms, the first of these is taken: an arm was renamed, and its runs need no training.
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
