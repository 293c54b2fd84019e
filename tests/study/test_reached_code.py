"""Which edits of a reward file count for one of its functions, and finished runs that were keyed by the whole file."""

from __future__ import annotations

import ast

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
    "a docstring": ("The number of words.", "How many words.", ()),
    "a constant": ("LIMIT = 12", "LIMIT = 13", ("words",)),
    "a function": ("math.sqrt(len(text))", "math.sqrt(1 + len(text))", ("roots",)),
    "another helper of the same file": ("import fits, other", "import fast as fits, other", FUNCTIONS),
    "a class that a hint names": ("self.number = 0", "self.number = 1", ("helped",)),
    "what runs as a script": ('print(words(["a b"]))', 'print(roots(["a b"]))', ()),
    "a call that may do anything": ("SEEN = {}", "SEEN = {}\nmath.prepare()", FUNCTIONS),
    "a decorator that may note the function": ("def count", "@math.noted\ndef count", FUNCTIONS),
    "a class with a parent that may note it": ("class Counter:", "class Counter(math.Noting):", FUNCTIONS),
    "a default that may do anything": ("def count(text)", "def count(text, now=math.now())", FUNCTIONS),
    "a block": ("SEEN = {}", "try:\n    SEEN = {}\nexcept OSError:\n    pass", FUNCTIONS),
    "a hint that may do anything": ("LIMIT = 12", "LIMIT: math.note(3) = 12", ("words",)),
    "a dictionary of functions": ("SEEN = {}", "SEEN = {'count': count}", ("roots",)),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "helpers.py").write_text("def fits(text):\n    return 1.0\n\n\nother = fast = fits\n")
    return tmp_path


def digests(folder, text=FILE):
    """The digest of each function in a copy of the folder whose file has this text."""
    place = folder / str(len(list(folder.iterdir())))
    place.mkdir()
    (place / "helpers.py").write_text((folder / "helpers.py").read_text())
    (place / "mine.py").write_text(text)
    return {name: function_digest(f"mine.py:{name}", place) for name in FUNCTIONS}


@pytest.mark.parametrize(("old", "new", "functions"), EDITS.values(), ids=EDITS.keys())
def test_an_edit_counts_for_the_functions_that_reach_it(folder, old, new, functions):
    before, after = digests(folder), digests(folder, FILE.replace(old, new, 1))
    assert tuple(name for name in FUNCTIONS if before[name] != after[name]) == functions


@pytest.mark.parametrize(
    "line", ["globals()", "from helpers import *", "words.__globals__", "import builtins as b", "import importlib.x"]
)
def test_a_file_that_looks_names_up_by_text_counts_as_a_whole(line):
    place = "import math\n" if "*" in line else "    return len(WORDS"
    tree = ast.parse(FILE.replace(place, f"{' ' * (len(place) - len(place.lstrip()))}{line}\n{place}"))
    assert reached(tree, "words") is tree.body
    assert reached(tree, "nowhere") is tree.body


F = "def f():\n    return "
NOTE = f"SEEN = []\ndef note(number):\n    SEEN.append(number)\n{F}SEEN\n"
PATCHED = f"import tab, patch\n{F}tab.T\ndef g():\n    return patch\n"
GIVEN = "import builtins\n\nbuiltins.GIVEN = VALUE\n"
#: Files, and whether another value in them may change what the function `f` of mine.py does.
REACHED = [
    # A module that is imported for what it does.
    ({"tab.py": "T = {'a': 1}\n", "patch.py": "import tab\n\ntab.T['a'] = VALUE\n", "mine.py": PATCHED}, True),
    # A user's module with the name of one of Python's.
    ({"statistics.py": GIVEN, "mine.py": "import statistics\ndef f():\n    return GIVEN\n"}, True),
    # A name in a class that may mean another.
    ({"mine.py": f"def _C__help():\n    return VALUE\nclass C:\n    g = lambda self: __help()\n{F}C().g()\n"}, True),
    # Hints, decorators and classes that run code, without `from __future__ import annotations`.
    ({"mine.py": f"{NOTE}def g(a: note(VALUE)): ...\n"}, True),
    ({"mine.py": f"{NOTE}@cache(VALUE)\ndef g(a): ...\n"}, True),
    ({"mine.py": f"{NOTE}class G:\n    __f = note\n    h = VALUE\n"}, True),
    ({"mine.py": f"{NOTE}class G:\n    h: int = VALUE\n"}, False),
]


@pytest.mark.parametrize(("files", "counts"), REACHED)
def test_what_a_function_reaches_without_its_name_counts(tmp_path, files, counts):
    digests = set()
    for value in "56":
        (tmp_path / value).mkdir()
        for name, text in files.items():
            (tmp_path / value / name).write_text(text.replace("VALUE", value))
        digests.add(function_digest("mine.py:f", tmp_path / value))
    assert (len(digests) > 1) == counts


def test_a_job_takes_the_digest_of_the_part_or_of_the_whole_and_no_other(folder):
    part, whole = function_digest("mine.py:words", folder), whole_digest("mine.py:words", folder)
    assert part != whole
    assert [is_code_of("mine.py:words", code, folder) for code in (part, whole, "0" * 16)] == [True, True, False]
    # Of a file of one function both are the same, so that its finished runs keep their keys without further ado.
    (folder / "one.py").write_text('"""Mine."""\nimport math\n\n\ndef one(completions):\n    return [math.pi]\n')
    assert function_digest("one.py:one", folder) == whole_digest("one.py:one", folder)


def test_runs_of_an_earlier_version_keep_their_keys_until_the_file_is_edited(folder, config):
    config["components"]["format"] = {"function": "mine.py:words"}
    study = resolve(config, "study.yaml", folder)
    content = next(run for run in study.runs.values() if run.arm == "b").arm_spec.content()
    content["components"]["format"]["code"] = whole_digest("mine.py:words", folder)
    old = f"b-{key_of(content)}"
    runs = folder / study.config.root / "runs"
    (runs / old).mkdir(parents=True)
    found = resolve(config, "study.yaml", folder)
    assert found.folders[found.keys["b"]] == old
    assert found.keys["a"] == study.keys["a"]
    assert {run.folder for run in found.runs.values() if run.arm == "b"} == {old}
    assert content["components"]["format"]["code"] in found.runs[f"{old}/seed0"].spec
    (runs / f"b-{study.keys['b']}").mkdir()  # runs of the present form come first
    assert resolve(config, "study.yaml", folder).keys == study.keys
