"""The report of a finished study in a real browser."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from reward_ablation.figures.catalogue import figures_of

from .test_policy import HARMS, RAN, after_all_harms

pytestmark = pytest.mark.slow

#: What the report has beside the figures, by category.
OTHERS = {
    "All figures": ["All figures, in one file"],
    "Cost": ["Hours by arm"],
    "Examples": ["Examples of answers"],
    "Provenance": ["Code, packages and hardware"],
    "Study": ["Arms and runs", "Config", "Environment", "How to reproduce it"],
    "Summary": ["First page", "Main table, for a paper", "Summary in words and numbers"],
}

#: Figures of a study without methods of combination.
FIGURES = figures_of(())

#: Titles by category, as the report is to list them.
TITLES = {
    category: sorted(
        {entry.title for entry in FIGURES.values() if entry.category == category} | {*OTHERS.get(category, [])}
    )
    for category in sorted({entry.category for entry in FIGURES.values()} | {*OTHERS})
}

MENU = "[...document.querySelectorAll('nav ul a')].map(each => each.innerText.trim())"
ROWS = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].innerText.trim())"
#: Titles by category, of what the report shows where a category is clicked.
LISTED = """
const titles = parts => Object.values(parts).flat().map(path => results[path].labels.title);
return Object.fromEntries(Object.entries(categories).map(([name, parts]) => [name, titles(parts)]));
"""
CLICK = """
const [selector, words] = arguments;
const found = [...document.querySelectorAll(selector)].filter(each => each.innerText.trim() === words);
if (found.length !== 1) throw new Error(`${found.length} of ${words}`);
found[0].click();
"""
BUTTON = """
const [title, kind] = arguments;
const row = [...document.querySelectorAll('tbody tr')].find(each => each.cells[0].innerText.trim() === title);
row.querySelector(`a[iconname=${kind}]`).click();
"""


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    finished.make("--report", str(path))
    return path


@pytest.fixture
def browser(running, report):
    """The report, freshly opened; in the end nothing has gone wrong in it."""
    running.open(report)
    running.wait_for(MENU)
    yield running
    assert running.console() == []


def show(browser, category: str) -> list[str]:
    """Open a category from the menu; its rows."""
    browser.run(CLICK, "nav ul a", category)
    return browser.wait_for(ROWS)


def test_every_category_and_entry_is_listed(browser):
    assert [words for words in browser.wait_for(MENU) if words not in ("Workflow", "Statistics", "About")] == list(
        TITLES
    )
    assert {category: sorted({*titles}) for category, titles in browser.run(LISTED).items()} == TITLES


def test_the_switch_chooses_between_the_image_and_the_graphic_for_a_paper(browser):
    assert sorted(show(browser, "Training")) == TITLES["Training"]  # each once
    title = FIGURES["rewards"].title
    browser.run(BUTTON, title, "eye")
    browser.wait_for("document.querySelector('#app img[src*=\"image/png\"]') !== null")
    browser.run(CLICK, "fieldset label", "paper (PDF)")
    assert sorted(browser.wait_for(ROWS)) == TITLES["Training"]
    browser.run(BUTTON, title, "eye")
    browser.wait_for("document.querySelector('#app iframe, #app embed, #app object') !== null")
    browser.run(CLICK, "fieldset label", "image with caption (PNG)")  # for the tests that follow


def test_a_figure_opens_with_its_caption(browser):
    show(browser, "Evaluation")
    title = FIGURES["arms"].title
    browser.run(BUTTON, title, "eye")
    drawn = "Math.max(0, ...[...document.querySelectorAll('#app img')].map(each => each.naturalWidth))"
    assert browser.wait_for(f"{drawn} > 1000")
    browser.run(BUTTON, title, "information-circle")
    words = browser.wait_for("document.querySelector('nav').innerText")
    assert "looks better than it is" in words.replace("\n", " ")


FIRST_PAGE = "document.querySelector('main.overview')?.innerText"

#: Elements that can be scrolled sideways, and the contrast of text with its background (WCAG 2, at best 21).
WIDER = """
return [...document.querySelectorAll('*')].filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1
  && getComputedStyle(each).display !== 'inline').map(each => `${each.tagName} ${each.className}`)
"""
CONTRAST = """
const light = colour => {
  const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(part => part / 255);
  const linear = parts.map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const page = document.querySelector('main.overview');
const ground = light(getComputedStyle(page).backgroundColor);
return [...page.querySelectorAll('h1, h2, p, li, dt, dd')].map(each => {
  const [low, high] = [light(getComputedStyle(each).color), ground].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
});
"""


def test_the_first_page_is_the_study_with_its_result_and_main_figure(browser, finished):
    words = browser.wait_for(FIRST_PAGE)
    differences = pd.read_parquet(finished.results / "tables" / "paired_differences.parquet")
    row = differences.query("family == 'primary'").iloc[0]
    interval = f"95 % interval {row['low']:.3f} to {row['high']:.3f}".replace("-", "−")
    assert interval in words
    assert words.startswith(finished.config["name"])
    images = "return [...document.querySelectorAll('main.overview img')].map(each => [each.naturalWidth, each.alt])"
    [(width, text)] = browser.run(images)
    assert width > 1000
    assert interval in text


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1400, "dark")])
def test_the_first_page_fits_and_is_legible(running, report, width, scheme):
    running.show_as(width, scheme=scheme)
    try:
        running.open(report)
        running.wait_for(FIRST_PAGE)
        running.wait_for("document.querySelector('.vega-embed svg, .vega-embed canvas') !== null")
        assert running.run(WIDER) == []
        assert min(running.run(CONTRAST)) >= 4.5
        assert running.run("return [...document.images].filter(each => !each.closest('nav') && !each.alt).length") == 0
    finally:
        running.show_as(1500)


@pytest.mark.long
def test_every_entry_opens_and_has_a_caption(browser, report):
    entries = browser.run("return Object.values(results).map(each => [each.name, each.labels, each.caption])")
    assert [name for name, _, caption in entries if len(caption.split()) < 20] == []
    assert {tuple(sorted(labels)) for _, labels, _ in entries} == {("format", "title")}
    for category in TITLES:
        browser.open(report)
        browser.wait_for(MENU)
        for place, _ in enumerate(show(browser, category)):
            click = "document.querySelectorAll('tbody tr')[arguments[0]].querySelector('a[iconname=eye]').click()"
            browser.run(click, place)
            browser.wait_for("document.querySelector('#app img, #app iframe, #app embed') !== null")


@pytest.mark.parametrize("protected", [True, False])
def test_what_is_injected_runs_nothing_and_asks_no_server(running, report, server, tmp_path, protected):
    harms = HARMS.format(server=server.url, ran=RAN)
    words = report.read_text().replace('<div id="app">', f'{harms}<div id="app">', 1)
    described = json.dumps(harms).replace("</", r"<\/")
    words = words.replace('var workflow_desc = "', f'var workflow_desc = {described} + "', 1)
    if not protected:
        words = words.replace("Content-Security-Policy", "nothing", 1)
    (tmp_path / "report.html").write_text(words)
    title = after_all_harms(running, tmp_path / "report.html")
    assert (title == "Snakemake Report") == protected
    assert (server.asked == []) == protected
    if protected:
        running.wait_for(MENU)  # the report's own scripts run
    running.console()  # what was refused; later tests look at their own errors
