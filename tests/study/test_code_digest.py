"""The code digest changes with every change in the import closure, and with no change of comments or messages."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reward_ablation.rewards.load import component_names
from reward_ablation.study import code_digest as digests
from reward_ablation.study import core_digest
from reward_ablation.study.code_digest import PACKAGE_ROOT, code_digest, code_text, file_of_module, module_digests
from reward_ablation.study.core_digest import STAGES, deciding_digest, equivalents, is_around, training_modules

FILES = {
    "__init__.py": "",
    "stage/__init__.py": "",
    "stage/__main__.py": '"""Doc."""\nfrom reward_ablation.stage.work import work\n\nwork()\n',
    "stage/work.py": (
        "import os\nfrom reward_ablation.tools import deep\n\n\ndef work():\n"
        "    from reward_ablation.late import late  # inside a function\n    return deep.f(late(1))\n"
    ),
    "tools/__init__.py": "",
    "tools/deep.py": "def f(x):\n    return x + 1\n",
    "late.py": "def late(x):\n    return x\n",
    "other.py": "def other():\n    return 1\n",
}


def package(folder: Path, edited: str = "", old: str = "", new: str = "") -> Path:
    for name, text in FILES.items():
        path = folder / "reward_ablation" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(old, new) if name == edited else text)
    return folder


def test_closure_has_imports_at_any_depth_and_nothing_else(tmp_path):
    names = ("", ".stage", ".stage.__main__", ".stage.work", ".tools", ".tools.deep", ".late")
    found = module_digests("reward_ablation.stage", root=package(tmp_path))
    assert found.keys() == {f"reward_ablation{name}" for name in names}


@pytest.mark.parametrize(
    ("file", "old", "new", "seen"),
    [
        ("late.py", "return x", "return 2 * x", True),
        ("other.py", "return 1", "return 2", False),  # not imported
        ("late.py", "def late", "# a comment\ndef late", False),
        ("stage/__main__.py", '"""Doc."""\n', "", False),
        ("tools/deep.py", "x + 1", "(x  +  1)", False),  # formatting
    ],
)
def test_what_the_digest_sees(tmp_path, file, old, new, seen):
    roots = package(tmp_path / "before"), package(tmp_path / "after", file, old, new)
    before, after = (code_digest("reward_ablation.stage", root=root) for root in roots)
    assert (before != after) == seen


def test_the_core_and_the_components_count_and_nothing_around_them():
    modules = training_modules(["correctness"])
    names = ("training.core.trainer", "sampling.prompts", "rewards.grading.math_worker", "rewards.components")
    assert {f"reward_ablation.{name}" for name in names} <= modules.keys()
    assert [name for name in modules if is_around(name)] == []


def test_each_function_that_decides_numbers_counts():
    for module in training_modules(component_names()):
        path = file_of_module(module)
        whole, tree = code_text(path), ast.parse(path.read_text())
        digests._text(tree, False, [])  # which takes docstrings and messages out of the tree
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert [each.name for each in functions if digests._text(each, False, []) not in whole] == []


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("'''Words.'''", "", False),
        ("class C:\n        '''Words.'''", "class C:\n        '''Others.'''", False),
        ("raise ValueError('one')", "raise ValueError(f'two {x}')", False),
        ("raise ValueError('one', 1)", "raise ValueError('one', 2)", True),  # whoever catches the error may read it
        ("raise ValueError('one')", "raise KeyError('one')", True),
        ("print(f'one {x}', flush=True)", "print('two')", False),
        ("print('one', file=pipe)", "print('two', file=pipe)", True),  # a program may read it
        ("y = 'one'", "y = 'two'", True),  # may be more than a message
    ],
)
def test_docstrings_and_messages_do_not_count(tmp_path, before, after, counts):
    files = tmp_path / "before.py", tmp_path / "after.py"
    for file, line in zip(files, (before, after), strict=True):
        file.write_text(f"def f(x):\n    {line}\n    return x\n")
    assert (code_text(files[0]) != code_text(files[1])) == counts


def test_digests_of_one_class_stand_for_the_same_code(monkeypatch):
    now = core_digest.present_digest("core")
    monkeypatch.setattr(core_digest, "equivalents", lambda: {"core": [{"digests": ["0123456789abcdef", now]}]})
    deciding_digest.cache_clear()
    assert deciding_digest("core") == "0123456789abcdef"
    deciding_digest.cache_clear()


def test_each_class_says_what_showed_it_and_no_digest_is_in_two():
    for name, classes in equivalents().items():
        every = [digest for entry in classes for digest in entry["digests"]]
        assert len(every) == len({*every}), name
        assert name in ("core", "checkpoints") or name in STAGES or file_of_module(name), "no such code"
        assert all(entry["shown_by"] and len(entry["digests"]) > 1 for entry in classes), name


def test_digests_on_disk_are_of_the_same_texts_and_whole(tmp_path):
    """The digest is computed again after an edit of a file, damage to the kept digests, or their loss."""
    file, module = tmp_path / "digests.json", tmp_path / "module.py"

    def digest(answer: str, text: str) -> str:
        module.write_text(text)
        for cached in (digests.content, digests.package_key, digests.read):
            cached.cache_clear()
        files = {"module": module}
        digests.kept_or_made("one", lambda: answer, files, file)
        kept = digests.read(file, digests.package_key(tuple(files.items())))
        digests.write(file, kept)
        return kept["digests"]["one"]

    assert digest("first", "x = 1\n") == "first"
    assert digest("second", "x = 1\n") == "first"
    assert digest("third", "x = 2\n") == "third"
    for damaged in ("[1]", file.read_text()[:-1]):
        file.write_text(damaged)
        assert digest("fourth", "x = 2\n") == "fourth"


def test_digests_are_kept_where_python_writes_no_compiled_modules(tmp_path):
    """Images of containers set PYTHONDONTWRITEBYTECODE."""
    (tmp_path / "module.py").write_text("x = 1\n")
    code = "from pathlib import Path; from reward_ablation.study.code_digest import kept_or_made as kept\n"
    code += "kept('one', lambda: 'first', {'module': Path('module.py')}, Path('digests.json'))"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert '"one": "first"' in (tmp_path / "digests.json").read_text()
