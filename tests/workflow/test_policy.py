"""Pages in a real browser: no script that a text brings runs, and no server is asked."""

from __future__ import annotations

import time

import pandas as pd
import pytest
from markupsafe import Markup

from reward_ablation.analysis.tables import write_table_page
from reward_ablation.system.html_page import page, table

from .browser import Browser

#: Words that stand in the title if a script ran.
RAN = "a script ran"

#: Texts that would do harm in a page where they are not escaped.
HARMS = """
<script>document.title = '{ran}'</script>
<img src="{server}/image.png" onerror="document.title = '{ran}'">
<script src="{server}/script.js"></script>
<link rel="stylesheet" href="{server}/style.css">
<style>@import url({server}/import.css); body {{ background: url({server}/background.png) }}</style>
<iframe src="{server}/frame.html"></iframe><iframe srcdoc="<script>parent.document.title = '{ran}'</script>"></iframe>
<object data="{server}/object.pdf"></object><video src="{server}/video.mp4"></video>
<svg onload="document.title = '{ran}'"></svg><a id="link" href="javascript:document.title = '{ran}'">link</a>
<form id="form" action="{server}/form"><input name="a"></form>
"""
STRIKE = "document.getElementById('link').click(); document.getElementById('form').submit()"


def after_all_harms(running: Browser, path) -> str:
    """Title of a page after a second in which all its harms may act."""
    running.open(path)
    running.run(STRIKE)
    time.sleep(1)
    return running.run("return document.title")


@pytest.mark.parametrize("protected", [True, False])
def test_an_injected_text_runs_nothing_and_asks_no_server(running, server, tmp_path, protected):
    harms = HARMS.format(server=server.url, ran=RAN)
    words = page("A page", "With harms", Markup(harms), table(["a"], [["b"]]))
    if not protected:  # the harms do act where no policy is
        words = words.replace("Content-Security-Policy", "nothing")
    (tmp_path / "page.html").write_text(words)
    title = after_all_harms(running, tmp_path / "page.html")
    assert (title == "A page") == protected
    assert (server.asked == []) == protected


def test_a_table_of_hostile_texts_is_shown_as_text(running, server, tmp_path):
    harms = HARMS.format(server=server.url, ran=RAN)
    running.console()  # of earlier pages
    write_table_page(pd.DataFrame({"text": [harms]}), "A table", "With harms", tmp_path / "page.html")
    running.open(tmp_path / "page.html")
    assert "<script>" in running.run("return document.querySelector('td').innerText")
    assert running.run("return getComputedStyle(document.querySelector('td')).textAlign") == "left"  # styles work
    assert running.run("return document.title") == "A table"
    assert server.asked == []
    assert running.console() == []
