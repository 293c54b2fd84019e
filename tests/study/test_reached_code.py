"""Which edits of a reward file count for one of its functions, and finished runs that were keyed by the whole file."""

from __future__ import annotations

import ast
import copy

import pytest

from reward_ablation.spec.canonical import key_of
from reward_ablation.study.reached_code import reached
from reward_ablation.study.resolve import resolve
from reward_ablation.study.reward_files import function_digest, is_code_of, whole_digest

FILE = '''
"""Rewards of a study."""

from __future__ import annotations

import math
import re
from helpers import fits, other

LIMIT = 12
WORDS = re.compile("[a-z]+")
SEEN = {}


class Counter:
    """Counts."""

    def __init__(self):
        self.number = 0


def count(text):
    return len(WORDS.findall(text))


def words(completions, **columns):
    """The number of words."""
    return [float(count(text) <= LIMIT) for text in completions]


def roots(completions, **columns):
    SEEN["roots"] = True
    return [math.sqrt(len(text)) for text in completions]


def helped(completions, *, as_type: "Counter" = None, **columns):
    return [fits(text) for text in completions]


if __name__ == "__main__":
    print(words(["a b"]))
'''
FUNCTIONS = ("words", "roots", "helped")

#: An edit, and the functions whose results it may change.
EDITS = {
    "a comment": ("LIMIT = 12", "LIMIT = 12  # words", ()),
    "a docstring": ("The number of words.", "How many words.", ()),
    "a constant": ("LIMIT = 12", "LIMIT = 13", ("words",)),
    "a function": ("math.sqrt(len(text))", "math.sqrt(1 + len(text))", ("roots",)),
    "an import of Python's": ("import math", "import cmath as math", ("roots",)),
    "another helper of the same file": ("import fits, other", "import fast as fits, other", FUNCTIONS),
    "a class that a hint names": ("self.number = 0", "self.number = 1", ("helped",)),
    "what runs as a script": ('print(words(["a b"]))', 'print(roots(["a b"]))', ()),
    "a new function": ("def count", "def new():\n    return 1\n\n\ndef count", ()),
    "a call that may do anything": ("SEEN = {}", "SEEN = {}\nmath.prepare()", FUNCTIONS),
    "a decorator that may note the function": ("def count", "@math.noted\ndef count", FUNCTIONS),
    "a class with a parent that may note it": ("class Counter:", "class Counter(math.Noting):", FUNCTIONS),
    "a default that may do anything": ("def count(text)", "def count(text, now=math.now())", FUNCTIONS),
    "an import for what it does": ("SEEN = {}", "import prepared\n\nSEEN = {}", FUNCTIONS),
    "a block": ("SEEN = {}", "try:\n    SEEN = {}\nexcept OSError:\n    pass", FUNCTIONS),
    "a method that is noted": ("    def __init__", "    @math.noted\n    def __init__", FUNCTIONS),
    "a hint that may do anything": ("LIMIT = 12", "LIMIT: math.note(3) = 12", ("words",)),
    "a key function": ("SEEN = {}", "SEEN = {}\nORDER = sorted([2, 1], key=count)", FUNCTIONS),
    "a subscript that makes a key": ("SEEN = {}", "SEEN = {}\nANY = SEEN[3]", FUNCTIONS),
    "a dictionary of functions": ("SEEN = {}", "SEEN = {'count': count}", ("roots",)),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "helpers.py").write_text("def fits(text):\n    return 1.0\n\n\nother = fast = fits\n")
    (tmp_path / "prepared.py").write_text("")
    return tmp_path


def digests(folder, text=FILE):
    """The digest of each function in a copy of the folder whose file has this text."""
    place = folder / str(len(list(folder.iterdir())))
    place.mkdir()
    for name in ("helpers.py", "prepared.py"):
        (place / name).write_text((folder / name).read_text())
    (place / "mine.py").write_text(text)
    return {name: function_digest(f"mine.py:{name}", place) for name in FUNCTIONS}


@pytest.mark.parametrize(("old", "new", "functions"), EDITS.values(), ids=EDITS.keys())
def test_an_edit_counts_for_the_functions_that_reach_it(folder, old, new, functions):
    before, after = digests(folder), digests(folder, FILE.replace(old, new, 1))
    assert tuple(name for name in FUNCTIONS if before[name] != after[name]) == functions


@pytest.mark.parametrize(
    "line",
    ["globals()", "import sys; sys.modules", "from helpers import *", "words.__globals__", "import builtins as b"],
)
def test_a_file_that_looks_names_up_by_text_counts_as_a_whole(folder, line):
    text = FILE.replace("    return [float(count", f"    {line}\n    return [float(count", 1)
    if line.startswith("from helpers"):
        text = FILE.replace("import math", f"{line}\nimport math", 1)
    tree = ast.parse(text)
    assert reached(tree, "words") is tree.body
    assert reached(tree, "nowhere") is tree.body


def differ(folder, *versions):
    """Whether the function f has different digests in two versions of files."""
    for number, files in enumerate(versions):
        (folder / str(number)).mkdir()
        for name, text in files.items():
            (folder / str(number) / name).write_text(text)
    return function_digest("mine.py:f", folder / "0") != function_digest("mine.py:f", folder / "1")


HINTS = """
def note(number):
    SEEN.append(number)
    return number


SEEN = []
TABLE = {"a": 1}


def f():
    return SEEN


def g(a: OTHER):
    return a
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("OTHER", "int", False),
        ("OTHER", "note(3)", True),
        ("OTHER", "TABLE[3]", True),
        ("def g(a: OTHER)", "def g(a) -> note(3)", True),
        ("def g(a: OTHER)", "@cache\ndef g(a)", True),
        ("def g(a: OTHER):\n    return a", "class G:\n    __f = note", True),
        ("def g(a: OTHER):\n    return a", "class G:\n    f = 3", False),
    ],
)
def test_hints_and_decorators_that_run_code_count(tmp_path, old, new, counts):
    texts = [HINTS.replace("OTHER", "str"), HINTS.replace(old, new).replace("OTHER", "str")]
    assert differ(tmp_path, *({"mine.py": text} for text in texts)) == counts


PATCHED = """
import tab, patch


def f():
    return tab.T


def g():
    return patch
"""
MANGLED = """
def _C__help():
    return 1


class C:
    def f(self):
        return __help()


def f():
    return C().f()
"""


@pytest.mark.parametrize(
    "files",
    [
        # A module that is imported for what it does.
        {"tab.py": "T = {'a': 1}\n", "patch.py": "import tab\n\ntab.T['a'] = VALUE\n", "mine.py": PATCHED},
        # A user's module with the name of one of Python's.
        {
            "statistics.py": "import builtins\n\nbuiltins.GIVEN = VALUE\n",
            "mine.py": PATCHED.replace("tab, patch", "statistics").replace("tab.T", "GIVEN"),
        },
        {"mine.py": MANGLED.replace("return 1", "return VALUE")},  # a name in a class may mean another
    ],
)
def test_what_a_function_reaches_without_its_name_counts(tmp_path, files):
    assert differ(tmp_path, *({name: text.replace("VALUE", value) for name, text in files.items()} for value in "56"))


def test_a_file_of_one_function_has_the_digest_of_the_whole(tmp_path):
    """So its finished runs keep their keys without further ado."""
    (tmp_path / "one.py").write_text('"""Mine."""\nimport math\n\n\ndef one(completions):\n    return [math.pi]\n')
    assert function_digest("one.py:one", tmp_path) == whole_digest("one.py:one", tmp_path)


def test_a_job_takes_both_digests_and_no_other(folder):
    part, whole = function_digest("mine.py:words", folder), whole_digest("mine.py:words", folder)
    assert part != whole
    assert is_code_of("mine.py:words", part, folder)
    assert is_code_of("mine.py:words", whole, folder)
    assert not is_code_of("mine.py:words", "0" * 16, folder)


def test_runs_of_an_earlier_version_keep_their_keys_until_the_file_is_edited(folder, config):
    config["components"]["format"] = {"function": "mine.py:words"}
    study = resolve(config, "study.yaml", folder)
    whole = copy.deepcopy(study.runs[next(name for name in study.runs if name.startswith("b-"))])
    content = whole.arm_spec.content()
    content["components"]["format"]["code"] = whole_digest("mine.py:words", folder)
    old = f"b-{key_of(content)}"
    runs = folder / study.config.root / "runs"
    (runs / old).mkdir(parents=True)
    found = resolve(config, "study.yaml", folder)
    assert found.folders[found.keys["b"]] == old
    assert found.keys["a"] == study.keys["a"]
    assert {run.folder for run in found.runs.values() if run.arm == "b"} == {old}
    [spec] = {run.spec for run in found.runs.values() if run.name == f"{old}/seed0"}
    assert content["components"]["format"]["code"] in spec
    (runs / f"b-{study.keys['b']}").mkdir()  # runs of the present form come first
    assert resolve(config, "study.yaml", folder).keys == study.keys
