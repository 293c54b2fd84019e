"""The code that decides a run's numbers imports nothing of the surrounding code, which its digest does not cover.

`make lint` has import contracts for whole packages. This test is about single modules of packages that both sides use.
"""

import pytest

from reward_ablation.config import checks, trl_settings
from reward_ablation.study.code_digest import PACKAGE_ROOT, code_text, imported_names, is_own, package_files
from reward_ablation.study.core_digest import is_around, training_modules
from reward_ablation.training.core import settings, trainer

MODULES = package_files(PACKAGE_ROOT)
#: Surrounding modules that a deciding module may import: classes of exceptions, markers of parameters, how requests to
#: an endpoint are sent and how a process is ended, change no number. Types of specs and
#: sections are for mypy only: import contracts refuse them at run time.
ALLOWED = {
    "reward_ablation.system.errors",
    "reward_ablation.rewards.parameters",
    "reward_ablation.rewards.endpoint",
    "reward_ablation.rewards.killable_process",
    "reward_ablation.spec.run",
    "reward_ablation.config.sections.data",
}
DECIDING = {
    *training_modules([]),
    *(name for name in MODULES if not is_around(name) and ".combination" not in name and ".models." not in name),
}


def around(module: str) -> set[str]:
    """Surrounding modules that a deciding module imports, also inside a function."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    names = imported_names(MODULES[module], package, messages=True)
    return {name for name in names if is_own(name) and name in MODULES and is_around(name)}


@pytest.mark.parametrize("module", sorted(DECIDING))
def test_the_core_imports_only_the_core(module):
    assert around(module) - ALLOWED <= {"reward_ablation.rewards"}


def test_the_digest_of_training_is_over_the_core_and_nothing_else():
    counted = {*training_modules([])}
    assert {name for name in MODULES if name.startswith("reward_ablation.training.core")} <= counted
    others = {name.removeprefix("reward_ablation.") for name in counted}
    assert {"gram.similarity", "gram.store", "sampling.draws", "sampling.prompts", "sampling.tokenizer"} <= others
    assert {"rewards.arguments", "rewards.completions", "rewards.scoring", "rewards.grading.extraction"} <= others
    assert not any(map(is_around, counted))
    above = {"reward_ablation", "reward_ablation.training"}  # packages with a docstring and no code
    assert all(code_text(MODULES[name]) == "Module()" for name in above)


def test_settings_that_config_explains_are_those_of_the_core():
    assert set(checks.UNWATCHED) == set(trainer.UNWATCHED)
    assert trl_settings.IMPORTANCE_SAMPLING_MODE == settings.IMPORTANCE_SAMPLING_MODE
