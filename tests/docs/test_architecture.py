"""The pages for people who change the code agree with the code: drawing, table, paths and links."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

import architecture  # noqa: E402

STALE = "the code has other packages or imports than docs/architecture.md shows: run python docs/tools/architecture.py"
LIBRARY = ROOT / "workflow" / architecture.PACKAGE
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
#: Endings of files that are in the repository; others are results.
ENDINGS = ("", ".json", ".md", ".py", ".rst", ".smk", ".toml", ".txt", ".yaml")
#: Begins a path of the repository, or of the library.
FIRST = {path.name for folder in (ROOT, LIBRARY) for path in folder.iterdir() if not path.name.startswith(".")}


def test_the_drawing_and_the_table_are_those_of_the_code():
    assert architecture.DRAWING.read_text() == architecture.drawing(), STALE
    assert architecture.table() in architecture.PAGE.read_text(), STALE


def test_the_text_in_place_of_the_drawing_names_all_packages_row_by_row():
    order = [name for layer in architecture.layers() for name in layer]
    text = re.search(r"!\[(.*?)\]\(images/architecture.svg\)", architecture.PAGE.read_text())[1]
    assert [word for word in re.findall(r"\w+", text) if word in order] == order


def test_each_package_and_folder_of_the_library_says_what_it_is_for():
    for path in LIBRARY.rglob("__init__.py"):
        first = path.read_text().partition("\n")[0]
        assert re.match(r'"""[A-Z].{15,}', first), f"{path}: say in the docstring what the package is for"


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_is_there(page):
    named = {path for path in re.findall(r"`([\w./-]+)`", (ROOT / page).read_text()) if "/" in path}
    named = {path for path in named if path.split("/")[0] in FIRST and Path(path).suffix in ENDINGS}
    paths = {path for path in named if not re.search("[A-Z]{3}", path)}  # NAME and RESULTS stand for the user's
    assert len(paths) > 15
    missing = {path for path in paths if not (ROOT / path).exists() and not (LIBRARY / path).exists()}
    assert not missing, f"{page} names paths that are not there: {sorted(missing)}"


@pytest.mark.parametrize("page", [*PAGES, "README.md", "results/README.md"])
def test_every_link_of_a_page_that_the_site_does_not_have_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#:]+)", (ROOT / page).read_text())
    assert links
    missing = {link for link in links if not (ROOT / page).parent.joinpath(link).exists()}
    assert not missing, f"{page} links to what is not there: {sorted(missing)}"
