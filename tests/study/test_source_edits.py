"""Edits of the source, and the jobs that a start repeats after each edit, by the digests of the rules.

Messages of errors never count. Edits of code around the core never train, generate or prepare anything again.
"""

import ast
import re

import pytest

from reward_ablation.analysis.registry import RULES
from reward_ablation.figures.catalogue import FIGURES, module_of
from reward_ablation.study import code_digest, core_digest
from reward_ablation.study.code_digest import PACKAGE_ROOT
from reward_ablation.study.core_digest import STAGES, code_of, deciding_digest, training_digest


def message(tree: ast.Module) -> None:
    """Another word in each error's message."""
    raised = [part for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)]
    texts = [part for part in raised if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    assert texts
    for text in texts:
        text.value += " indeed"


def function(tree: ast.Module) -> None:
    """Another statement in each function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.append(ast.parse("edited = 1").body[0])


def codes() -> dict[str, str]:
    """The `code` of each rule, for a study with two components."""
    for cached in (code_digest.code_digest, deciding_digest, core_digest._core):
        cached.cache_clear()
    found = {name: deciding_digest(name) for name in STAGES}
    found["train"] = training_digest(["correctness", "answer_format"])
    found |= {f"tables_{name}": code_of(rule.module) for name, rule in RULES.items()}
    return found | {"figures": code_of("figures", *map(module_of, FIGURES))}


@pytest.fixture
def made_again(monkeypatch, tmp_path):
    """Rules whose digest an edit of files changes. Only the edited files are read anew, and nothing is kept on disk."""
    monkeypatch.setattr(code_digest, "kept_or_made", lambda name, make, files: make())
    whole = code_digest.source

    def made_again(edits: dict) -> set[str]:
        edited = {}
        for number, (file, edit) in enumerate(edits.items()):
            path = PACKAGE_ROOT / "reward_ablation" / file
            tree = ast.parse(path.read_text())
            edit(tree)
            edited[path] = tmp_path / f"{number}.py"
            edited[path].write_text(ast.unparse(tree))
        before = codes()
        monkeypatch.setattr(code_digest, "source", lambda path, messages: whole(edited.get(path, path), messages))
        after = codes()
        assert {*edited} <= {*code_digest.package_files(PACKAGE_ROOT).values()}
        return {rule for rule, code in before.items() if after[rule] != code}

    yield made_again
    monkeypatch.undo()
    codes()


#: Around the core, messages of the core, and what is not in use.
NOTHING = {
    **dict.fromkeys(("system/errors.py", "start/internals.py", "training/around/run.py"), message),
    **dict.fromkeys(("training/core/gradients/recorder.py", "data/word_problems.py"), message),
    **dict.fromkeys(("system/gpus.py", "study/resolve.py", "start/plan.py", "models/check.py"), function),
    **dict.fromkeys(("training/__main__.py", "training/around/checkpoints.py", "evaluation/stored.py"), function),
    **dict.fromkeys(("rewards/components/tag_count.py", "combination/methods/upgrad.py", "models/fetch.py"), function),
}


def test_edits_around_what_decides_make_nothing_again(made_again):
    assert made_again(NOTHING) == set()


#: Sets of rules. Tables and figures are cheap: seconds each.
CHEAP = r"tables_\w+|figures"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("system/errors.py", CHEAP),
        ("cluster/command.py", "tables_cost"),
        # The core.
        ("training/core/trainer.py", "train"),
        ("sampling/prompts.py", "train|evaluation|sft"),
        ("gram/similarity.py", rf"train|{CHEAP}"),
        ("rewards/grading/structure.py", rf"train|evaluation|data|{CHEAP}"),
        # Data, models, answers.
        ("data/word_problems.py", "data|word_problems|demo_model"),
        # Tables: each rule by its own code. Figures: one rule.
        ("analysis/gradients/measured_steps.py", "tables_(gradients|combination)"),
        ("analysis/evaluation/effects.py", "tables_(evaluation|claims)|figures"),  # why there are none
        ("figures/style.py", "figures"),
    ],
)
def test_an_edit_makes_again_only_what_the_code_decides(made_again, file, expected):
    again = made_again({file: function})
    assert {rule for rule in again if not re.fullmatch(expected, rule)} == set()
    assert again
    assert ("train" in again) == ("train" in expected.split("|"))
