"""The code digest changes with every change in the import closure, and with no change of comments or messages."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reward_ablation.rewards.load import component_names
from reward_ablation.study import code_digest as code_digest_module
from reward_ablation.study import core_digest
from reward_ablation.study.code_digest import (
    PACKAGE_ROOT,
    code_digest,
    code_text,
    content,
    file_of_module,
    kept_or_made,
    module_digests,
    package_key,
    read,
    write,
)
from reward_ablation.study.core_digest import (
    STAGES,
    deciding_digest,
    equivalents,
    is_around,
    present_digest,
    training_modules,
)

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
    assert module_digests("reward_ablation.stage", root=package(tmp_path)).keys() == {
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
        ("late.py", "return x", "return 2 * x", True),
        ("tools/__init__.py", "", "side = 1\n", True),
        ("stage/work.py", "deep.f(late(1))", "deep.f(late(2))", True),
        ("other.py", "return 1", "return 2", False),  # not imported
        ("late.py", "def late", "# a comment\ndef late", False),
        ("stage/__main__.py", '"""Doc."""\n', "", False),
        ("tools/deep.py", "x + 1", "(x  +  1)", False),  # formatting
    ],
)
def test_what_the_digest_sees(tmp_path, file, old, new, seen):
    before = digest(package(tmp_path / "before"))
    after = digest(package(tmp_path / "after", **{file: (old, new)}))
    assert (before != after) == seen


def test_the_core_and_the_components_count_and_nothing_around_them():
    modules = training_modules(["correctness"])
    assert {
        "reward_ablation.training.core.trainer",
        "reward_ablation.sampling.prompts",
        "reward_ablation.sampling.tokenizer",
        "reward_ablation.rewards.grading",
        "reward_ablation.rewards.grading.math_worker",
        "reward_ablation.rewards.components.correctness",
    } <= modules.keys()
    assert [name for name in modules if is_around(name)] == []
    assert [name for name in modules if name.split(".")[1:2] in (["analysis"], ["figures"], ["evaluation"])] == []


def test_each_function_that_decides_numbers_counts():
    for module in training_modules(component_names()):
        path = file_of_module(module)
        whole, tree = code_text(path), ast.parse(path.read_text())
        code_digest_module._text(tree, False, [])  # which takes docstrings and messages out of the tree
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert [each.name for each in functions if code_digest_module._text(each, False, []) not in whole] == []


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("'''Words.'''", "", False),
        ("class C:\n        '''Words.'''", "class C:\n        '''Others.'''", False),
        ("async def g():\n        '''Words.'''", "async def g():\n        '''Others.'''", False),
        ("raise ValueError('one')", "raise ValueError(f'two {x}')", False),
        ("raise ValueError('one' + x) from None", "raise ValueError('two') from None", False),
        ("raise ValueError('one', 1)", "raise ValueError('one', 2)", True),  # whoever catches the error may read it
        ("raise ValueError('one')", "raise KeyError('one')", True),
        ("raise ValueError('one')", "pass", True),
        ("print(f'one {x}', flush=True)", "print('two')", False),
        ("print('one', file=pipe)", "print('two', file=pipe)", True),  # a program may read it
        ("y = 'one'", "y = 'two'", True),  # may be more than a message
        ("y = print('one')", "y = print('two')", True),
    ],
)
def test_docstrings_and_messages_do_not_count(tmp_path, before, after, counts):
    texts = []
    for name, line in (("before.py", before), ("after.py", after)):
        (tmp_path / name).write_text(f"def f(x):\n    {line}\n    return x\n")
        texts.append(code_text(tmp_path / name))
    assert (texts[0] != texts[1]) == counts


def test_digests_of_one_class_stand_for_the_same_code(monkeypatch):
    now = present_digest("core")
    monkeypatch.setattr(core_digest, "equivalents", lambda: {"core": [{"digests": ["0123456789abcdef", now]}]})
    deciding_digest.cache_clear()
    assert deciding_digest("core") == "0123456789abcdef"
    deciding_digest.cache_clear()


def test_each_class_says_what_showed_it_and_no_digest_is_in_two():
    for name, classes in equivalents().items():
        digests = [digest for entry in classes for digest in entry["digests"]]
        assert len(digests) == len(set(digests)), name
        assert name in ("core", "checkpoints") or name in STAGES or file_of_module(name), (
            f"{name}: no code has this name"
        )
        for entry in classes:
            assert entry["shown_by"], name
            assert len(entry["digests"]) > 1, name


def test_digests_on_disk_are_of_the_same_texts_and_whole(tmp_path):
    """The digest is computed again after an edit of a file, damage to the kept digests, or their loss."""
    file, module = tmp_path / "digests.json", tmp_path / "module.py"
    module.write_text("x = 1\n")

    def digest(answer: str) -> str:
        for cached in (content, package_key, read):
            cached.cache_clear()
        files = {"module": module}
        kept_or_made("one", lambda: answer, files, file)
        kept = read(file, package_key(tuple(files.items())))
        write(file, kept)
        return kept["digests"]["one"]

    assert digest("first") == "first"
    assert digest("second") == "first"
    module.write_text("x = 2\n")
    assert digest("third") == "third"
    for damaged in ("", "no\n{}", "[1]", file.read_text()[:-1]):
        file.write_text(damaged)
        assert digest("fourth") == "fourth"
        file.unlink()


def test_digests_are_kept_where_python_writes_no_compiled_modules(tmp_path):
    """Images of containers set PYTHONDONTWRITEBYTECODE."""
    make = "kept_or_made('one', lambda: 'first', {'module': Path('module.py')}, Path('digests.json'))"
    code = f"from pathlib import Path; from reward_ablation.study.code_digest import kept_or_made; {make}"
    (tmp_path / "module.py").write_text("x = 1\n")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert '"one": "first"' in (tmp_path / "digests.json").read_text()
