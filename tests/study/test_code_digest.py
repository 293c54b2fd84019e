"""The code digest sees every change in the import closure, and no change of words."""

import ast
from pathlib import Path

import pytest

from reward_ablation.rewards.load import component_names
from reward_ablation.study.code_digest import (
    PACKAGE_ROOT,
    _file_of,
    code_digest,
    file_digest,
    import_closure,
    imports_of_file,
    module_digests,
)
from reward_ablation.system.errors import StudyError

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


@pytest.mark.parametrize(("one", "other"), [("f(x, '')", "f(x)"), ("''", "' '"), ("f(None)", "f()"), ("[]", "()")])
def test_what_is_empty_counts_where_it_means_something(tmp_path, one, other):
    texts = []
    for name, text in (("one.py", one), ("other.py", other)):
        (tmp_path / name).write_text(f"y = {text}\n")
        texts.append(file_digest(tmp_path / name, tmp_path))
    assert texts[0] != texts[1]


def test_every_function_that_training_imports_counts():
    """The real closure: what decides a run's result is in it, what only looks at results is not."""
    closure = import_closure(("reward_ablation.training", "reward_ablation.rewards.components.correctness"))
    assert {
        "reward_ablation.training.core.trainer",
        "reward_ablation.sampling.prompts",
        "reward_ablation.sampling.tokenizer",
        "reward_ablation.rewards.grading",
        "reward_ablation.rewards.grading.worker",
    } <= closure
    assert not [name for name in closure if name.split(".")[1:2] in (["analysis"], ["figures"], ["evaluation"])]


TRAINING = ("reward_ablation.training", *(f"reward_ablation.rewards.components.{name}" for name in component_names()))


def functions_of(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def trees_of_training() -> dict[str, ast.Module]:
    return {module: ast.parse(_file_of(module, PACKAGE_ROOT).read_text()) for module in import_closure(TRAINING)}


def write_tree(module: str, tree: ast.Module, root: Path, ending: str = "") -> None:
    path = root / _file_of(module, PACKAGE_ROOT).relative_to(PACKAGE_ROOT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ast.unparse(tree) + ending)


def test_a_change_in_any_function_that_training_imports_is_seen(tmp_path):
    """The n-th function of every module that has so many, for each n."""
    before, trees = module_digests(*TRAINING), trees_of_training()
    changed = 0
    for number in range(max(len(functions_of(tree)) for tree in trees.values())):
        root = tmp_path / str(number)
        having = [module for module, tree in trees.items() if len(functions_of(tree)) > number]
        for module in having:
            body = functions_of(trees[module])[number].body
            body.append(ast.parse("edited = 1").body[0])
            write_tree(module, trees[module], root)
            body.pop()
        after = module_digests(*having, root=root)
        assert [module for module in having if after[module] == before[module]] == []
        changed += len(having)
    assert changed > 300


def test_comments_and_docstrings_of_all_that_training_imports_do_not_count(tmp_path):
    def other_words(tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                told = ast.Expr(ast.Constant("Other words."))
                node.body[: 1 if ast.get_docstring(node) else 0] = [told]

    for module, tree in trees_of_training().items():
        other_words(tree)
        write_tree(module, tree, tmp_path, "\n# a comment\n")
    assert module_digests(*TRAINING, root=tmp_path) == module_digests(*TRAINING)
    assert code_digest(*TRAINING, root=tmp_path) == code_digest(*TRAINING)


USERS = {
    "mine.py": "import math\nfrom helpers import one\nimport package.deep\n\n\ndef f(completions):\n    return one()\n",
    "helpers.py": '"""Words."""\n\n\ndef one():\n    from late import two\n    return two\n',
    "late.py": "two = 2\n",
    "package/__init__.py": "from . import beside\n",
    "package/deep.py": "from .beside import three\n",
    "package/beside.py": "three = 3\n",
    "other.py": "four = 4\n",
}


@pytest.mark.parametrize(
    ("file", "old", "new", "seen"),
    [
        ("mine.py", "return one()", "return 2 * one()", True),
        ("helpers.py", "return two", "return -two", True),
        ("late.py", "2", "3", True),  # imported inside a function of an imported file
        ("package/beside.py", "3", "4", True),  # by relative imports
        ("package/__init__.py", "from . import beside", "from . import beside, deep", True),
        ("helpers.py", '"""Words."""', '"""Other words."""', False),
        ("late.py", "two", "# a comment\ntwo", False),
        ("other.py", "4", "5", False),  # not imported
    ],
)
def test_a_users_file_counts_with_what_it_imports(tmp_path, file, old, new, seen):
    digests = []
    for folder, text in (("before", old), ("after", new)):
        for name, content in USERS.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace(old, text) if name == file else content)
        digests.append(file_digest(tmp_path / folder / "mine.py", tmp_path / folder))
    assert (digests[0] != digests[1]) == seen


BESIDE = {
    "rewards/mine.py": "import random\nfrom my_helper import one\nfrom shared import two\n\n\ndef f(): ...\n",
    "rewards/my_helper.py": "import my_late_helper\none = 1\n",
    "rewards/my_late_helper.py": "three = 3\n",
    "rewards/random.py": "four = 4\n",
    "rewards/numpy.py": "five = 5\n",
    "rewards/shared.py": "two = 2\n",
    "shared.py": "two = 2\n",
}


@pytest.mark.parametrize(
    ("file", "seen"),
    [
        ("rewards/my_helper.py", True),
        ("rewards/my_late_helper.py", True),  # imported by the helper
        ("shared.py", True),
        ("rewards/shared.py", False),  # Python finds the one in the study's folder
        ("rewards/random.py", False),  # Python finds the standard library's
    ],
)
def test_a_users_file_counts_with_what_it_imports_from_its_own_folder(tmp_path, file, seen):
    digests = []
    for version in ("before", "after"):
        for name, content in BESIDE.items():
            path = tmp_path / version / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}edited = 1\n" if version == "after" and name == file else content)
        digests.append(file_digest(tmp_path / version / "rewards" / "mine.py", tmp_path / version))
    assert (digests[0] != digests[1]) == seen


def test_a_file_beside_the_reward_is_not_imported_instead_of_what_is_installed(tmp_path):
    for name in ("mine.py", "numpy.py"):
        (tmp_path / name).write_text("import numpy\n")
    folder, root = tmp_path, tmp_path / "study"
    assert imports_of_file(folder / "mine.py", root) == {}


def test_this_package_counts_where_a_users_file_builds_on_it(tmp_path):
    (tmp_path / "mine.py").write_text("from reward_ablation.rewards.grading import grade\n")
    (tmp_path / "installed.py").write_text("from pandas import DataFrame\n")
    assert "reward_ablation.rewards.grading.grader" in imports_of_file(tmp_path / "mine.py", tmp_path)
    assert imports_of_file(tmp_path / "installed.py", tmp_path) == {}


def test_an_imported_file_that_is_no_python_is_one_line(tmp_path):
    (tmp_path / "mine.py").write_text("def f():\n    import broken\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(StudyError, match=r"broken.py: line 1: not valid Python"):
        file_digest(tmp_path / "mine.py", tmp_path)
