"""The pages: the names that they must contain, and how long they may be. `make docs` checks the links of the site's."""

import re
from pathlib import Path

import pytest

from reward_ablation.figures.catalogue import FIGURES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "config" / "README.md", ROOT / "CHANGELOG.md"]
LIBRARY = ROOT / "workflow" / "reward_ablation"
#: Written by a tool, or from docstrings.
GENERATED = {"config_keys.md", "api.md"}


def functions_in(folder: str) -> set[str]:
    return {
        f"reward_ablation.{folder.replace('/', '.')}.{file.stem}.{file.stem}"
        for file in (LIBRARY / folder).glob("*.py")
        if file.name != "__init__.py"
    }


@pytest.mark.parametrize("folder", ["rewards/components", "combination/methods"])
def test_the_api_page_has_every_function_that_a_config_can_name(folder):
    listed = re.findall(r"^\.\. autofunction:: (\S+\.\S+\.\S+\.\S+\.\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert [name for name in listed if f".{folder.replace('/', '.')}." in name] == sorted(functions_in(folder))


def test_the_gallery_has_every_figure_in_order_with_its_title_tables_and_a_small_picture():
    sections = re.split(r"^### ", (DOCS / "gallery.md").read_text(), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections] == [entry.title for entry in FIGURES.values()]
    for section, (name, entry) in zip(sections, FIGURES.items(), strict=True):
        assert f"](images/gallery/{name}.png)" in section
        assert entry.tables[0] in re.findall(r"`(\w+)`", section)
        assert len(section.split()) > 60
        assert (DOCS / "images" / "gallery" / f"{name}.png").stat().st_size < 60_000
    assert {file.stem for file in (DOCS / "images" / "gallery").iterdir()} == {*FIGURES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_image_has_a_text_for_those_who_do_not_see_it(page):
    text = page.read_text()
    assert all(len(alternative) > 20 for alternative in re.findall(r"!\[([^]]*)\]\(", text))
    without = r"<img(?![^>]*\balt=\"[^\"]{20})|^\.\. (image|figure)::|```{(image|figure)}"
    assert not re.search(without, text, re.MULTILINE)


def test_the_pages_are_short():
    """What only developers want is printed by the benchmarks. Generated parts do not count."""
    pages = [page for page in DOCS.rglob("*.md") if page.name not in GENERATED]
    texts = {page: page.read_text() for page in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]}
    written = [re.sub(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", "", text, flags=re.DOTALL) for text in texts.values()]
    assert sum(len(text.split()) for text in written) < 40_000
    assert len(texts[ROOT / "README.md"].splitlines()) <= 100
    assert len(re.findall(r"^\| \*\*", texts[DOCS / "glossary.md"], re.MULTILINE)) <= 25


def test_a_release_has_one_list_of_changes():
    for release in re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]:
        assert re.findall(r"^### (.*)", release, re.MULTILINE) == ["Before you update", "All changes"]
