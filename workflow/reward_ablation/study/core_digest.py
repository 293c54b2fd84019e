"""Digests of the code that decides results, such as the core of training, a component or the evaluation.

The commands of jobs record them beside their results. A start makes the results again where today's digests differ.
Tables and figures have them as params of their rules (`code_of`).

`equivalent_code.json` lists classes of digests whose code was shown to make the same bytes, as after a refactoring. The
first of its class stands for a digest, so that nothing is made again. Tables, figures and scores have no classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from reward_ablation.study.code_digest import PACKAGE, PACKAGE_ROOT, code_digest, module_digests, package_files

#: Packages and modules that do not decide results: their code prints, starts, fetches, locks, checks and records.
AROUND = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        *("config", "spec", "study", "system", "cluster", "start", "training.around"),
        *("rewards.parameters", "rewards.asynchronous", "rewards.endpoint", "rewards.killable_process"),
        "rewards.request_records",
        *("models.check", "models.fetch", "models.verify"),
    )
)
#: Packages and modules that decide the numbers of a run.
DECIDING = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        "combination",
        "training.core",
        "sampling",
        "gram",
        "rewards.arguments",
        "rewards.columns",
        "rewards.completions",
        "rewards.components",
        "rewards.grading",
        "rewards.groups",
        *("rewards.instructions", "rewards.judge_messages"),  # as runs of earlier versions have recorded them
        "rewards.math_paper",
        "rewards.sandbox",
        "rewards.scoring",
        "models.reward_model",
    )
)
#: Parent packages of `DECIDING`. They contain no code of their own.
_PARENTS = {PACKAGE, f"{PACKAGE}.training", f"{PACKAGE}.rewards"}
#: Modules outside the core that write and read checkpoints. If one of them changes, old checkpoints are not used. The
#: digest of an unfinished run's own code also covers `resumed_state`, which is now a part of `saving_trainer`.
_CHECKPOINT_MODULES = tuple(
    f"{PACKAGE}.training.around.{name}" for name in ("checkpoints", "parts", "resumed_state", "saving_trainer")
)
#: Name of the code that checkpoints depend on, in `equivalent_code.json`.
CHECKPOINTS = "checkpoints"
#: The package of the core. All its modules count.
CORE = f"{PACKAGE}.training.core"
#: Modules of each stage whose results cost GPU hours or decide what is trained on. A fetched model does not depend on
#: the code that fetches it.
STAGES = {
    "data": (f"{PACKAGE}.data.problems",),
    "demo_model": (f"{PACKAGE}.models.demo",),
    "evaluation": (f"{PACKAGE}.evaluation.evaluate", f"{PACKAGE}.evaluation.kept"),
    "models": (),
    "sft": (f"{PACKAGE}.sft.fine_tune",),
    "word_problems": (f"{PACKAGE}.data.word_problems",),
}
_COMPONENTS = f"{PACKAGE}.rewards.components"
_COMBINATION = f"{PACKAGE}.combination"
#: Modules that decide a component's scores but that the component does not import, because `rewards` imports no torch.
_BEHIND = {f"{_COMPONENTS}.reward_model": (f"{PACKAGE}.models.reward_model",)}
_FILE = "equivalent_code.json"


@cache
def deciding_digest(name: str) -> str:
    """Digest of a key of `STAGES`, of `core` or of a module: the first digest of its class, 16 hex digits."""
    return first_of_class(name, present_digest(name))


def code_of(*stages: str) -> str:
    """Digest of packages or modules, named without `reward_ablation.`; of a key of `STAGES`, its `deciding_digest`."""
    if stages[0] in STAGES:
        return deciding_digest(*stages)
    return code_digest(*(f"{PACKAGE}.{stage}" for stage in stages))


def present_digest(name: str) -> str:
    """Digest of the present code of a name, `checkpoints` included. A component's leaves out modules of the core's."""
    if name == CHECKPOINTS:
        return _of_checkpoints(command_modules(()))
    if name == "core":
        return code_digest(*core_modules(), without=AROUND)
    if name.startswith(f"{_COMPONENTS}."):
        modules = _modules_of(*_with_behind([name]))
        return _digest({module: digest for module, digest in modules.items() if module not in _core()})
    return code_digest(*STAGES.get(name, (name,)), without=AROUND)


def training_digest(functions: Iterable[str]) -> str:
    """Digest of the code that decides a run's numbers: the core, and built-in components. Specs cover users' files."""
    return _digest({name: deciding_digest(name) for name in ("core", *component_modules(functions))})


def training_modules(functions: Iterable[str]) -> dict[str, str]:
    """Digest of each module that `training_digest` covers."""
    return _modules_of(*core_modules(), *scoring_modules(functions))


def command_modules(functions: Iterable[str]) -> dict[str, str]:
    """Digest of each module of the training command; methods of combination count where the run uses one."""
    every = module_digests(f"{PACKAGE}.training", *scoring_modules(functions))
    used = training_modules(functions)
    return {name: digest for name, digest in every.items() if name in used or not _is_in(name, (_COMBINATION,))}


def component_modules(functions: Iterable[str]) -> list[str]:
    """Modules of the built-in components among these functions, and of combination methods, whose names have a dot."""
    built_in = [name for name in sorted(set(functions)) if ":" not in name]
    return [f"{PACKAGE}.{name}" if "." in name else f"{_COMPONENTS}.{name}" for name in built_in]


def scoring_modules(functions: Iterable[str]) -> list[str]:
    """Modules of the built-in components among these functions, and further modules that decide their scores."""
    return _with_behind(component_modules(functions))


def _with_behind(modules: Iterable[str]) -> list[str]:
    """Modules of components, and the modules in `_BEHIND` that decide their scores."""
    return [each for module in modules for each in (module, *_BEHIND.get(module, ()))]


def core_modules() -> list[str]:
    """All modules in the core's folder, including modules that no other module imports."""
    return sorted(module for module in package_files(PACKAGE_ROOT) if _is_in(module, (CORE,)))


@cache
def _core() -> dict[str, str]:
    """Digest of each module that the core's digest covers, including modules that components share with the core."""
    return _modules_of(*core_modules())


def _modules_of(*names: str) -> dict[str, str]:
    return module_digests(*names, without=AROUND)


def _digest(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]


def is_around(module: str) -> bool:
    """Whether a module of the training command, given by its dotted name, decides no numbers."""
    return module not in _PARENTS and not _is_in(module, DECIDING)


def checkpoint_code(modules: dict[str, str]) -> str:
    """Digest of the code that checkpoints depend on, by the digests of all modules of a training command."""
    return first_of_class(CHECKPOINTS, _of_checkpoints(modules))


def _of_checkpoints(modules: dict[str, str]) -> str:
    return _digest({name: digest for name, digest in modules.items() if _is_in(name, (CORE, *_CHECKPOINT_MODULES))})


def _is_in(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def first_of_class(name: str, digest: str) -> str:
    """The first digest of the class that a digest belongs to, or the digest itself if it belongs to none."""
    for entry in equivalents().get(name, []):
        if digest in entry["digests"]:
            return entry["digests"][0]
    return digest


@cache
def equivalents() -> dict[str, list[dict[str, Any]]]:
    """Classes by name: `digests`, the first of which stands for all, and `shown_by`: what showed it."""
    return json.loads((files("reward_ablation.study") / _FILE).read_text())
