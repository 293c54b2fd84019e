"""The code digest sees every change in the import closure, and no change of words."""

from pathlib import Path

import pytest

from reward_ablation.study.code_digest import code_digest, import_closure

FILES = {
    "__init__.py": "",
    "stage/__init__.py": "",
    "stage/__main__.py": '"""Doc."""\nfrom reward_ablation.stage.work import work\n\nwork()\n',
    "stage/work.py": (
        "import os\nfrom reward_ablation.tools import deep\n\n\ndef work():\n"
        '    """Doc."""\n    from reward_ablation.late import late  # inside a function\n    return deep.f(late(1))\n'
    ),
    "tools/__init__.py": "",
    "tools/deep.py": "def f(x):\n    return x + 1\n",
    "late.py": "def late(x):\n    return x\n",
    "other.py": "def other():\n    return 1\n",
}


def package(folder: Path, **changes: tuple[str, str]) -> Path:
    for name, text in FILES.items():
        old, new = changes.get(name, ("", ""))
        assert old in text
        path = folder / "reward_ablation" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(old, new))
    return folder


def digest(root: Path) -> str:
    return code_digest("reward_ablation.stage", root=root)


def test_closure_has_imports_at_any_depth_and_nothing_else(tmp_path):
    assert import_closure(("reward_ablation.stage",), package(tmp_path)) == {
        "reward_ablation",
        "reward_ablation.stage",
        "reward_ablation.stage.__main__",
        "reward_ablation.stage.work",
        "reward_ablation.tools",
        "reward_ablation.tools.deep",
        "reward_ablation.late",
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "seen"),
    [
        ("tools/deep.py", "x + 1", "x + 2", True),
        ("late.py", "return x", "return 2 * x", True),
        ("tools/__init__.py", "", "side = 1\n", True),
        ("stage/work.py", "deep.f(late(1))", "deep.f(late(2))", True),
        ("other.py", "return 1", "return 2", False),  # not imported
        ("late.py", "def late", "# a comment\ndef late", False),
        ("stage/work.py", '"""Doc."""', '"""Other words."""', False),
        ("stage/__main__.py", '"""Doc."""\n', "", False),
        ("tools/deep.py", "x + 1", "(x  +  1)", False),  # formatting
    ],
)
def test_what_the_digest_sees(tmp_path, file, old, new, seen):
    before = digest(package(tmp_path / "before"))
    after = digest(package(tmp_path / "after", **{file: (old, new)}))
    assert (before != after) == seen


def test_every_function_that_training_imports_counts():
    """The real closure: what decides a run's result is in it, what only looks at results is not."""
    closure = import_closure(("reward_ablation.training", "reward_ablation.rewards.components.correctness"))
    assert {
        "reward_ablation.training.trainer",
        "reward_ablation.data.prompts",
        "reward_ablation.models.load",
        "reward_ablation.rewards.grading",
        "reward_ablation.rewards.grading.worker",
    } <= closure
    assert not [name for name in closure if name.split(".")[1:2] in (["analysis"], ["figures"], ["evaluation"])]
