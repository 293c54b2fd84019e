"""Signatures from the syntax tree, against those of the imported function."""

import inspect

import pytest

from reward_ablation.rewards.arguments import arguments_of
from reward_ablation.rewards.load import function_in_file
from reward_ablation.rewards.parameters import hints_of, marks_of
from reward_ablation.study.reward_signature import NotInTree, signature_in_file
from reward_ablation.system.errors import StudyError

HEAD = """\
from typing import TYPE_CHECKING, Annotated, Literal, Optional, Union

import pydantic
from annotated_types import Ge
from pydantic import Field

import reward_ablation.rewards.parameters as kinds
from reward_ablation.rewards.parameters import FilePath, FolderPath, ModelPath, NotInSpec
from reward_ablation.rewards.parameters import FilePath as Words

if TYPE_CHECKING:
    from nowhere import Judge

Limit = Annotated[int, Ge(0)]
"""

TRY = "try:\n    from reward_ablation.rewards.parameters import "
#: Functions whose arguments and markers are in the tree as a whole.
READABLE = [
    "def f(completions, limit=10, *, low=-1.5, high, name=None, words=('a', 'b'), table={'x': [1]}): ...",
    "def f(completions, *, a: Limit, b: Union[int, str], c: Annotated[int, Field(gt=-2, le=3)], **columns): ...",
    "def f(completions, *, words: FilePath, model: FolderPath | None = None, n: NotInSpec[int] = 3): ...",
    "def f(completions, *, words: kinds.FilePath, more: Words, taste: ModelPath, revision: str): ...",
    "def f(completions, *, words: Optional[FilePath] = None, note: Annotated[int, 'in tokens'] = 1): ...",
    "Paths = Words\nSeldom = NotInSpec[int]\ndef f(completions, *, words: Paths | None, n: Seldom = 3): ...",
    "def f(completions, *, words: 'FilePath', judge: 'Judge' = None): ...",  # a name for type checkers: no hints at all
    "f = lambda completions, limit=3, **columns: [limit]",
    "try:\n    import nowhere\nexcept ImportError:\n    def f(completions, *, limit: int): ...",
    "COLUMN = 'answer'\ndef f(completions, *, column: str = COLUMN, **columns): ...",
    f"{TRY}FilePath as P\n    HAVE = True\nexcept ImportError:\n    P = str\ndef f(completions, *, words: P): ...",
    f"{TRY}FilePath as P\n    import nowhere\nexcept ImportError:\n    P = str\ndef f(completions, *, words: P): ...",
    f"{TRY}Nothing as P\nexcept ImportError:\n    P = FilePath\ndef f(completions, *, words: P): ...",
    "class Own:\n    words: FilePath\ndef f(completions, *, own: Literal['FilePath'] = 'FilePath'): ...",
    "import functools\ndef kept(g):\n    @functools.wraps(g)\n    def h(*a, **k): ...\n    return h\n"
    "@kept\ndef f(completions, *, words: FilePath, limit: int = 2): ...",
]


def columns_and_parameters(function):
    try:
        return arguments_of("mine.py:f", function, {}, ["difficulty"])
    except StudyError as error:
        return str(error)


@pytest.mark.parametrize("text", READABLE)
def test_the_tree_says_what_the_import_says(tmp_path, text):
    (tmp_path / "mine.py").write_text(f"{HEAD}\n{text}\n")
    read, imported = signature_in_file("mine.py:f", tmp_path), function_in_file("mine.py:f", tmp_path)
    assert without_hints(read) == without_hints(imported)
    assert marks_of(read) == marks_of(imported)
    assert columns_and_parameters(read) == columns_and_parameters(imported)


def without_hints(function):
    signature = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return inspect.Signature(bare, return_annotation="")


#: Hints and defaults that run code where Python reads them.
OPEN = [
    "def f(completions, *, a: open('MARKER', 'w').name): ...",
    "def f(completions, *, a: Again): ...\nAgain = Other\nOther = Again",
    "def f(completions, *, a: 'no (hint'): ...",
    "def f(completions, *, limit=open('MARKER', 'w'), low): ...",
]


@pytest.mark.parametrize("text", OPEN)
def test_what_is_no_marker_and_no_literal_runs_nothing(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{HEAD}\n{text}\n")
    assert hints_of(signature_in_file("mine.py:f", tmp_path)) == {}
    assert not (tmp_path / "MARKER").exists()


#: Hints that a marker may be in, in a way that is not read from the tree.
HIDDEN = [
    "class NS:\n    F = kinds.FilePath\ndef f(completions, *, a: NS.F): ...",
    "class NS:\n    from reward_ablation.rewards.parameters import FilePath as F\n"
    "def f(completions, *, a: 'NS.F'): ...",
    "def make():\n    return FilePath\nP = make()\ndef f(completions, *, a: P | None = None): ...",
    "def f(completions, *, a: Annotated[FilePath, pydantic.BeforeValidator(print)]): ...",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_hint_that_may_hide_a_marker_is_not_read(tmp_path, text):
    (tmp_path / "mine.py").write_text(f"{HEAD}\n{text}\n")
    assert list(marks_of(function_in_file("mine.py:f", tmp_path))) == ["a"]
    with pytest.raises(NotInTree, match="makes the type hint of 'a' in other ways than by the name of a marker"):
        signature_in_file("mine.py:f", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "COLUMN = 'answer'\nif print():\n    COLUMN = 'level'",
        "COLUMN = 'answer'\ndef other():\n    global COLUMN\n    COLUMN = 'level'",
        "COLUMN, SIZE = 'answer'",
        "COLUMN = str('answer')",
    ],
)
def test_a_name_without_one_literal_value_is_no_default_that_is_read(tmp_path, text):
    (tmp_path / "mine.py").write_text(f"{text}\ndef f(completions, *, column=COLUMN): ...\n")
    assert inspect.signature(signature_in_file("mine.py:f", tmp_path)).parameters["column"].default is ...


UNSAID = "its arguments are not in the text of the file: "


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def make(): ...\nf = make()", f"{UNSAID}line 2 defines it without `def`"),
        ("from elsewhere import *", f"{UNSAID}it may come from a star import"),
        ("class C:\n    def __call__(self): ...\nf = C()", "line 3 makes it with `C`, as an object that is no functio"),
        ("import functools\nf = functools.lru_cache(9)(print)", "line 2 makes it with `functools.lru_cache(9)`, as "),
        ("import functools\n@functools.cache\ndef f(completions): ...", "the decorator `@functools.cache` makes it"),
        ("def g(completions): ...\ndef _h(): ...", "no function 'f'; functions in the file: g"),
        ("f = 3", "no function 'f'; functions in the file: none"),
        ("def f(:", "mine.py does not load: SyntaxError: invalid syntax (mine.py, line 1)"),
        ("def f(completions): ...\nx = " + "1 + " * 50000 + "1", "mine.py does not load: RecursionError: "),
    ],
)
def test_a_file_that_does_not_say_the_arguments_is_one_line(tmp_path, text, line):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(StudyError) as told:
        signature_in_file("mine.py:f", tmp_path)
    assert str(told.value).startswith("components: mine.py:f: ")
    assert line in str(told.value)
    assert "\n" not in str(told.value)
    assert isinstance(told.value, NotInTree) == line.startswith(UNSAID)
