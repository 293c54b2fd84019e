"""The page of `reward-ablation watch` in a real browser: sorted by keyboard, in light and dark, wide and narrow."""

from __future__ import annotations

import threading

import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.watch.page import write_page
from reward_ablation.watch.server import Server
from watch.made_up_watch import HOSTILE, lines_of, live_file, rows_of, watch_of

TAB, ENTER = "\ue004", "\ue007"

#: What is listed: scores of the component in the column, and whether its heading says how they are sorted.
LISTED = """
const cells = [...document.querySelectorAll('#texts .scores')].map((row) => row.cells[arguments[0]].textContent);
return [cells, document.querySelector('#texts thead tr').cells[arguments[0]].getAttribute('aria-sort')];
"""


@pytest.fixture
def watch(tmp_path):
    """Four runs: the first is in training, and its completions are hostile."""
    watch = watch_of(MadeUpStudy(seeds=(0,)), tmp_path, state="running")
    rows = [row | {"score_correctness": score} for row, score in zip(rows_of(1), (0.5, None, 2.0, 1.0), strict=True)]
    rows = [row | {"completion": f"{n} {HOSTILE}"} for n, row in enumerate(rows)]
    live_file(watch.rollouts[0].result.parent).write_bytes(lines_of(rows))
    return watch


@pytest.fixture
def page(watch):
    with Server(watch, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{server.secret}/"
        server.shutdown()
        thread.join()


def tab_to(running, words):
    focused = "return document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    for _ in range(40):
        running.press(TAB)
        if running.run(focused).partition(":")[0] == words:
            assert running.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
            return
    raise AssertionError(f"{words} is not reached by the tab key")


@pytest.mark.parametrize(("scheme", "width", "back"), [("light", 1280, 255), ("dark", 400, 22)])
def test_the_page_can_be_read_and_used_by_keyboard(running, watch, page, scheme, width, back):
    running.show_as(width, scheme=scheme)
    running.console()  # of earlier pages
    running.open(page)
    running.wait_for("document.querySelectorAll('#texts .scores').length === 4")
    assert running.run("return getComputedStyle(document.body).backgroundColor") == f"rgb({back}, {back}, {back})"
    assert running.run("return document.documentElement.scrollWidth <= innerWidth")
    assert running.run("return document.querySelectorAll('#panels path').length") == 4 * 5 - 2  # two without scores
    label = running.run("return document.querySelector('#panels svg').getAttribute('aria-label')")
    assert label.startswith("total reward by step; last: correctness_only 0.375, ")

    tab_to(running, "correctness")
    running.press(ENTER)
    assert running.run(LISTED, 2) == [["2", "1", "0.5", "–"], "descending"]
    running.press(ENTER)
    assert running.run(LISTED, 2) == [["0.5", "1", "2", "–"], "ascending"]
    tab_to(running, "Completion 1")
    running.press(ENTER)
    assert running.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    texts = running.run("return [...document.querySelectorAll('pre')].map((part) => part.textContent)")
    assert texts[:2] == ["How?", "4"]
    assert texts[2].startswith("0 </script><script>document.title")
    assert "<U+202E>gnp.exe<U+202C> <U+001B>[31mred<U+0000> <U+D800> <U+2028>" in texts[2]
    assert running.run("return document.title") == "made_up: reward-ablation watch"
    assert running.console() == []


def test_new_steps_appear_and_what_is_being_read_stays(running, watch, page):
    running.show_as(1280)
    running.open(page)
    running.wait_for("document.querySelectorAll('#texts .scores').length === 4")
    running.run("document.getElementById('filter').focus()")
    running.press("3", " ")
    assert running.run(LISTED, 5)[0] == ["13 (cut off)"]
    with watch.rollouts[0].live.open("ab") as file:
        file.write(lines_of(rows_of(2, completion="3 more")))
    running.wait_for("document.getElementById('step').length === 2")
    assert running.run("return document.activeElement.id") == "filter"
    assert running.run(LISTED, 5)[0] == ["13 (cut off)"]
    running.run("const step = document.getElementById('step'); step.value = 2; step.dispatchEvent(new Event('change'))")
    running.wait_for("document.getElementById('summary').textContent.startsWith('Listed: 4 of 4')")


def test_a_file_for_others_works_without_a_server(running, watch, tmp_path):
    write_page(watch, tmp_path / "study.html")
    running.console()
    running.open(tmp_path / "study.html")
    running.wait_for("document.querySelectorAll('#texts .scores').length === 4")
    running.run("document.querySelectorAll('#texts th button')[1].click()")
    assert running.run(LISTED, 2) == [["2", "1", "0.5", "–"], "descending"]
    assert running.run("return document.querySelectorAll('#panels path').length") == 4 * 5 - 2
    assert running.run("return document.title") == "made_up: reward-ablation watch"
    assert running.console() == []
