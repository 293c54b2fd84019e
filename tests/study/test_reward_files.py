"""The key of a user's reward file covers the file, its imports, and this package's code that decides results."""

import pytest

from reward_ablation.study.reward_files import file_digest, function_digest, imports_of_file


def differ(folder, file, *versions):
    """Whether a file has different digests in two versions of all files."""
    digests = []
    for root, files in zip((folder / "0", folder / "1"), versions, strict=True):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        digests.append(file_digest(root / file, root))
    return digests[0] != digests[1]


@pytest.mark.parametrize(("one", "other"), [("f(x, '')", "f(x)"), ("''", "' '"), ("[]", "()")])
def test_what_is_empty_counts_where_it_means_something(tmp_path, one, other):
    assert differ(tmp_path, "mine.py", {"mine.py": f"y = {one}\n"}, {"mine.py": f"y = {other}\n"})


def test_a_file_has_the_encoding_that_it_names(tmp_path):
    """A byte order mark changes nothing, and the same bytes are other texts in another encoding."""
    code, latin = "W = 'é'\ndef f(completions): ...\n", "# -*- coding: latin-1 -*-\n"
    texts = code.encode(), code.encode("utf-8-sig"), (latin + code).encode("latin-1"), (latin + code).encode()
    digests = []
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_bytes(text)
        digests.append((file_digest(tmp_path / f"{number}.py", tmp_path), function_digest(f"{number}.py:f", tmp_path)))
    assert digests[0] == digests[1] == digests[2]
    assert digests[3][0] != digests[0][0]


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
        ("package/beside.py", "3", "4", True),  # by relative imports
        ("package/__init__.py", "from . import beside", "from . import beside, deep", True),
        ("other.py", "4", "5", False),  # not imported
    ],
)
def test_a_users_file_counts_with_what_it_imports(tmp_path, file, old, new, seen):
    assert differ(tmp_path, "mine.py", USERS, USERS | {file: USERS[file].replace(old, new)}) == seen


BESIDE = {
    "rewards/mine.py": "import random\nfrom my_helper import one\nfrom shared import two\n\n\ndef f(): ...\n",
    "rewards/my_helper.py": "import my_late_helper\none = 1\n",
    "rewards/my_late_helper.py": "three = 3\n",
    "rewards/random.py": "four = 4\n",
    "rewards/shared.py": "two = 2\n",
    "shared.py": "two = 2\n",
}


@pytest.mark.parametrize(
    ("file", "seen"),
    [
        ("shared.py", True),
        ("rewards/shared.py", False),  # Python finds the one in the study's folder
        ("rewards/random.py", False),  # Python finds the standard library's
    ],
)
def test_a_users_file_counts_with_what_it_imports_from_its_own_folder(tmp_path, file, seen):
    assert differ(tmp_path, "rewards/mine.py", BESIDE, BESIDE | {file: f"{BESIDE[file]}edited = 1\n"}) == seen


def test_a_file_beside_the_reward_is_not_imported_instead_of_what_is_installed(tmp_path):
    for name in ("mine.py", "numpy.py"):
        (tmp_path / name).write_text("import numpy\n")
    assert imports_of_file(tmp_path / "mine.py", tmp_path / "study") == {}


def test_a_package_beside_the_reward_goes_before_a_folder_of_its_name(tmp_path):
    """Python takes a folder without `__init__.py` last."""
    for name in ("hp/y.py", "rewards/hp/__init__.py", "rewards/hp/y.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    mine, beside = tmp_path / "rewards" / "mine.py", tmp_path / "rewards" / "hp"
    mine.write_text("from hp import y\n")
    assert imports_of_file(mine, tmp_path) == {"hp": beside / "__init__.py", "hp.y": beside / "y.py"}
    (tmp_path / "hp" / "__init__.py").write_text("")
    assert imports_of_file(mine, tmp_path)["hp.y"] == tmp_path / "hp" / "y.py"


def test_this_package_counts_where_a_users_file_builds_on_it(tmp_path):
    (tmp_path / "mine.py").write_text("from reward_ablation.rewards.grading import grade\nimport pandas\n")
    found = imports_of_file(tmp_path / "mine.py", tmp_path)
    assert "reward_ablation.rewards.grading.grader" in found
    assert not any(name.startswith("pandas") for name in found)
