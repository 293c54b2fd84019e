"""Edits of the source, and the jobs that a start repeats after each edit, by the digests of the rules.

Messages of errors never count. Edits of code around the core never train, generate or prepare anything again.
"""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from reward_ablation.study.code_digest import PACKAGE_ROOT

ROOT = PACKAGE_ROOT.parent

#: Prints the `code` of each rule, for a study with two components.
CODES = """
import json
from reward_ablation.analysis.registry import RULES
from reward_ablation.figures.catalogue import FIGURES, module_of
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import STAGES, deciding_digest, training_digest
codes = {name: deciding_digest(name) for name in STAGES}
codes["train"] = training_digest(["correctness", "answer_format"])
codes |= {f"tables_{name}": code_digest(f"reward_ablation.{rule.module}") for name, rule in RULES.items()}
codes["figures"] = code_digest("reward_ablation.figures", *(f"reward_ablation.{module_of(name)}" for name in FIGURES))
print(json.dumps(codes))
"""


def message(tree: ast.Module) -> None:
    """Another word in each error's message."""
    texts = [
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    assert texts
    for text in texts:
        text.value += " indeed"


def constant(tree: ast.Module) -> None:
    """A new constant at the end of the module."""
    tree.body.append(ast.parse("EDITED = 1").body[0])


def function(tree: ast.Module) -> None:
    """Another statement in each function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.append(ast.parse("edited = 1").body[0])


def codes_of(library: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(library)}
    printed = subprocess.run([sys.executable, "-c", CODES], env=environment, capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


@cache
def codes_now() -> dict[str, str]:
    return codes_of(PACKAGE_ROOT)


def made_again(folder: Path, file: str, edit) -> set[str]:
    """Rules whose digest an edit of one file changes; the other files are links to ours."""
    package = folder / "reward_ablation"
    for path in sorted((PACKAGE_ROOT / "reward_ablation").rglob("*")):
        if path.suffix in (".py", ".json"):
            link = package / path.relative_to(PACKAGE_ROOT / "reward_ablation")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    edited = package / file
    tree = ast.parse(edited.read_text())
    edit(tree)
    edited.unlink()
    edited.write_text(ast.unparse(tree))
    after = codes_of(folder)
    return {rule for rule, code in codes_now().items() if after[rule] != code}


#: Sets of rules. Tables and figures are cheap: seconds each.
NOTHING = "nothing"
CHEAP = r"tables_\w+|figures"
SAMPLES = "train|evaluation|sft"


@pytest.mark.parametrize(
    ("file", "edit", "expected"),
    [
        # Around the core: no run, whatever the edit.
        ("system/gpus.py", message, NOTHING),
        ("system/gpus.py", function, NOTHING),
        ("system/errors.py", message, NOTHING),
        ("system/errors.py", constant, CHEAP),
        ("system/locks.py", function, NOTHING),
        ("config/sections/training.py", constant, CHEAP),
        ("config/base.py", function, CHEAP),
        ("study/resolve.py", function, NOTHING),
        ("study/study.py", function, NOTHING),
        ("start/plan.py", function, NOTHING),
        ("start/internals.py", message, NOTHING),
        ("cluster/options.py", function, NOTHING),
        ("cluster/slurm.py", function, NOTHING),
        ("cluster/command.py", function, "tables_cost"),
        ("training/__main__.py", function, NOTHING),
        ("training/around/checkpoints.py", function, NOTHING),
        ("training/around/launch/launcher.py", function, NOTHING),
        ("training/around/run.py", message, NOTHING),
        ("evaluation/stored.py", function, NOTHING),
        ("models/check.py", message, NOTHING),
        # The core: its messages do not count, all else does.
        ("training/core/gradients/recorder.py", message, NOTHING),
        ("training/core/advantages.py", constant, "train"),
        ("training/core/trainer.py", function, "train"),
        ("sampling/prompts.py", function, SAMPLES),
        ("sampling/draws.py", function, "train|evaluation"),
        ("gram/similarity.py", function, rf"train|{CHEAP}"),
        ("rewards/grading/structure.py", function, rf"train|evaluation|data|{CHEAP}"),
        ("rewards/components/correctness.py", function, "train"),
        ("rewards/components/tag_count.py", function, NOTHING),  # not in use
        # Data, models, answers.
        ("data/word_problems.py", message, NOTHING),
        ("data/word_problems.py", constant, "data|word_problems|demo_model"),
        ("models/fetch.py", constant, NOTHING),
        ("models/check.py", function, NOTHING),
        ("models/demo.py", constant, "demo_model"),
        ("evaluation/generate.py", function, "evaluation"),
        # Tables: each rule by its own code. Figures: one rule.
        ("analysis/gradients/measured_steps.py", function, "tables_(gradients|combination)"),
        ("analysis/evaluation/effects.py", function, "tables_(evaluation|claims)|figures"),  # why there are none
        ("analysis/training.py", function, "tables_training"),
        ("combination/methods/upgrad.py", function, NOTHING),  # not in use
        ("report/cost/tables.py", function, "tables_cost"),
        ("figures/evaluation.py", function, "figures"),
        ("figures/style.py", function, "figures"),
    ],
)
def test_an_edit_makes_again_only_what_the_code_decides(tmp_path, file, edit, expected):
    again = made_again(tmp_path, file, edit)
    assert {rule for rule in again if not re.fullmatch(expected, rule)} == set()
    assert (again == set()) == (expected == NOTHING)
    if "train" in expected.split("|"):
        assert "train" in again
