"""The page as one file for others: small, with nothing of this machine, and with no text that acts."""

import base64
import getpass
import hashlib
import json
import re
import socket
import tomllib
from pathlib import Path

import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.watch.page import page, write_page

from .made_up_watch import HOSTILE, watch_of, with_completions

ROOT = Path(__file__).parents[2]

#: 20 runs, whose completions do not fit into a file.
MANY = MadeUpStudy(
    arms={f"arm_{n}": {"correctness": 1.0, "format": n / 20, "length": 0.1} for n in range(20)},
    seeds=(0,),
    steps=130,
    rollouts=16,
    gradients_every=0,
)


def data_of(written: str):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', written, re.DOTALL)[1])


def test_a_file_of_many_runs_is_below_two_megabytes_and_has_means_of_steps(tmp_path):
    watch = watch_of(MANY, tmp_path)
    with_completions(watch, "<数" * 2500)
    sentences = write_page(watch, tmp_path / "file.html")
    assert 300_000 < (tmp_path / "file.html").stat().st_size < 2_000_000
    data = data_of((tmp_path / "file.html").read_text())
    assert {*data["texts"]} == {str(run) for run in range(20)}  # each run has some
    kept = [len(of_step["rows"]) for of_run in data["texts"].values() for of_step in of_run.values()]
    assert sentences.startswith(f"This file has {sum(kept):,} of 41,600 completions")
    assert f"at most {max(kept)} of a step" in sentences
    assert {"1", "130"} <= {*data["texts"]["7"]}
    assert all(row[2].endswith("]") for row in data["texts"]["7"]["130"]["rows"])
    of_run = [point for point in data["points"] if point[0] == 5]
    assert data["width"] == 3
    assert [point[1] for point in of_run] == list(range(1, 131, 3))
    means = watch.rollouts[5].means
    assert of_run[1][2] == pytest.approx((means[4][0] + means[5][0] + means[6][0]) / 3, rel=1e-3)
    assert of_run[-1][2] == pytest.approx(means[130][0], rel=1e-3)


def test_a_file_names_no_place_user_or_machine(tmp_path):
    watch = watch_of(MadeUpStudy(seeds=(0,)), tmp_path)
    write_page(watch, tmp_path / "file.html")
    written = (tmp_path / "file.html").read_text()
    for name in (str(tmp_path), tmp_path.name, "/tmp", "node17", socket.gethostname(), getpass.getuser()):
        assert name not in written.replace("root {", ""), name
    assert data_of(written)["states"][0] == ["done", 0.5, "step 3 of 6"]
    without_rows = watch_of(MadeUpStudy(seeds=(0,)), tmp_path / "other")
    for rollouts in without_rows.rollouts:
        rollouts.result.unlink()
    assert write_page(without_rows, tmp_path / "file.html").startswith("This file has 0 of 0 completions")


def test_an_installed_package_has_the_page():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    parts = [path for path in (ROOT / "workflow/reward_ablation/watch").iterdir() if path.name.startswith("page.")]
    assert {path.suffix for path in parts} == {".css", ".j2", ".js", ".py"}
    packed = [path for path in parts for pattern in settings["reward_ablation"] if path.match(pattern)]
    assert {path.suffix for path in packed} == {".css", ".j2", ".js"}


@pytest.mark.parametrize("data", [None, {"texts": HOSTILE.replace("\ud800", ""), "</script>": "<!--<script>"}])
def test_only_the_own_script_and_style_run(data):
    written = page("name", data, "<b>")
    if data:
        assert "&lt;b&gt;" in written
        assert written.lower().count("</script") == 2  # the data's and the page's own
        assert data_of(written)["</script>"] == "<!--<script>"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', written)[1].replace("&#39;", "'")
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        text = re.search(rf"<{tag}>(.*)</{tag}>", written, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert ("connect-src 'self'" in policy) == (data is None)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", written)
