"""The code that decides a run's numbers imports nothing of the surrounding code, which its digest does not cover."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_ablation.config import checks, grpo_settings
from reward_ablation.study.code_digest import code_text
from reward_ablation.study.core_digest import training_modules
from reward_ablation.training.core import settings, watched_trainer

PACKAGE = Path(__file__).parents[2] / "workflow" / "reward_ablation"
#: Packages and modules that decide numbers, below `reward_ablation`.
ROOMS = (
    "training.core",
    "sampling",
    "gram",
    "rewards.grading",
    "rewards.judge_messages",
    "rewards.components",
    "rewards.arguments",
    "rewards.columns",
    "rewards.completions",
    "rewards.groups",
    "rewards.instructions",
    "rewards.math_paper",
    "rewards.sandbox",
    "rewards.scoring",
)
#: What they may import beside each other: classes of exceptions, markers of parameters, how requests to an endpoint are
#: sent and how a process is ended, change no number.
ALLOWED = (
    "reward_ablation.system.errors",
    "reward_ablation.rewards.parameters",
    "reward_ablation.rewards.endpoint",
    "reward_ablation.rewards.killable_process",
    # Types of specs and sections, in annotations alone: the import contracts refuse these imports at run time.
    "reward_ablation.spec.run",
    "reward_ablation.spec.parts",
    "reward_ablation.config.sections.data",
)


def is_core(name: str) -> bool:
    """Whether a module decides numbers; importing a room runs the `__init__.py` of `rewards`, too."""
    below = name.removeprefix("reward_ablation.")
    return below == "rewards" or any(below == room or below.startswith(f"{room}.") for room in ROOMS)


def modules() -> dict[str, Path]:
    """Files of the package, by dotted name."""
    files = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


MODULES = modules()
CORE_MODULES = sorted(filter(is_core, MODULES))


def imports_of(module: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each module of this package that a module imports, also inside a function or for types only."""
    parents = module.split(".") if MODULES[module].name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = parents[: len(parents) - node.level + 1] if node.level else []
            whole = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{whole}.{alias.name}" if f"{whole}.{alias.name}" in MODULES else whole for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "reward_ablation")


def offences(module: str, tree: ast.AST) -> list[str]:
    """Imports of a module of the core that leave the core."""
    path = MODULES[module].relative_to(PACKAGE.parents[1])
    return [
        f"{path}, line {line}: the core imports {name}"
        for line, name in imports_of(module, tree)
        if not is_core(name) and name not in ALLOWED
    ]


@pytest.mark.parametrize("module", CORE_MODULES)
def test_the_core_imports_only_the_core(module):
    assert offences(module, ast.parse(MODULES[module].read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "from reward_ablation.training.around.parts import PartWriter",
        "def f():\n    from reward_ablation.config import checks",
        "import reward_ablation.study.specs_of_config as spec",
        "from ....models import load",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from reward_ablation.study.specs_of_config import x",
        "from reward_ablation.rewards.load import load_component",
    ],
)
def test_an_import_out_of_the_core_is_named(line):
    [offence] = offences("reward_ablation.training.core.gradients.step", ast.parse(line))
    assert offence.startswith("workflow/reward_ablation/training/core/gradients/step.py, line ")
    assert offence.split()[-1] in MODULES


def test_the_digest_of_training_is_over_the_core_and_nothing_else():
    counted = {*training_modules([])}
    assert {name for name in MODULES if name.startswith("reward_ablation.training.core")} <= counted
    others = {name.removeprefix("reward_ablation.") for name in counted}
    assert {"gram.similarity", "gram.store", "sampling.draws", "sampling.prompts", "sampling.tokenizer"} <= others
    assert {"rewards.arguments", "rewards.completions", "rewards.scoring", "rewards.grading.extraction"} <= others
    above = {"reward_ablation", "reward_ablation.training"}  # packages with a docstring and no code
    assert {name for name in counted if not is_core(name)} == above
    assert all(code_text(MODULES[name]) == "Module()" for name in above)


def test_settings_that_config_explains_are_those_of_the_core():
    assert set(checks.UNWATCHED) == set(watched_trainer.UNWATCHED)
    assert grpo_settings.IMPORTANCE_SAMPLING_MODE == settings.IMPORTANCE_SAMPLING_MODE
