"""How often a run is trained that fails: once where its error stays, again where the error may pass."""

from __future__ import annotations

import copy
import shutil

import pytest

from .conftest import TINY, Study

pytestmark = pytest.mark.slow

#: Each training process takes the next way to behave: the folders count the trainings.
REWARDS = '''
import os
import signal
from pathlib import Path



def next_way():
    """The first way that no other training has taken; a fifth training and later ones take none of the list."""
    for way in ("raise", "nan", "kill", "score", "fifth", "sixth", "seventh"):
        try:
            Path(f"way-{way}").mkdir()
            return way
        except FileExistsError:
            continue


def troubled(completions, **columns):
    troubled.way = getattr(troubled, "way", None) or next_way()
    if troubled.way == "raise":
        raise ValueError("the judge's answer is no number")
    if troubled.way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return [float("nan") if troubled.way == "nan" else 0.5] * len(completions)
'''


def test_only_a_run_that_was_killed_is_trained_again(finished, tmp_path):
    """Three seeds: two meet errors of the user's, and a signal ends the third, which is trained again to its end."""
    config = copy.deepcopy(TINY)
    config["seeds"] = [0, 1, 2]
    config["components"] = {"troubled": {"function": "troubled.py:troubled"}}
    config["arms"]["arms"] = {"one": {"weights": {"troubled": 1}}}
    study = Study(tmp_path / "study", config)
    for made in ("models", "data"):
        shutil.copytree(finished.results / made, study.results / made)
    (study.folder / "troubled.py").write_text(REWARDS)
    result = study.snakemake("--until", "train")
    assert result.returncode == 1
    told = result.stdout + result.stderr
    ways = {path.name for path in study.folder.glob("way-*")}
    assert ways == {"way-raise", "way-nan", "way-kill", "way-score"}, told
    assert len(list(study.results.glob("runs/*/*/run.json"))) == 1
    logs = [path.read_text() for path in study.results.glob("logs/train/*/*.log")]
    errors = sorted(line for log in logs for line in log.splitlines() if line.startswith("error: "))
    assert len(errors) == 2, told
    assert all("troubled" in line for line in errors)
