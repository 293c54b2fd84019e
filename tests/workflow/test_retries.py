"""Attempts of a failing run: one if its error is permanent, another if the error may pass."""

from __future__ import annotations

import copy

import pytest

from reward_ablation.rewards.trial import TRY

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

#: Each training process takes the first way to behave that no other has taken: the folders count the trainings.
REWARDS = """
import os
import signal
from pathlib import Path


def next_way():
    for way in WAYS:
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
"""


@pytest.mark.parametrize("errors", [["raise"], pytest.param(["raise", "nan"], marks=pytest.mark.long)])
def test_only_a_run_that_was_killed_is_trained_again(finished, tmp_path, monkeypatch, errors):
    """Some seeds meet errors of the user's; a signal ends the last one, which is trained again to its end."""
    monkeypatch.setenv(TRY, "no")  # the errors are for the jobs
    config = copy.deepcopy(TINY)
    config["seeds"] = list(range(len(errors) + 1))
    config["components"] = {"troubled": {"function": "troubled.py:troubled"}}
    config["arms"]["arms"] = {"one": {"weights": {"troubled": 1}}}
    study = with_inputs_of(finished, Study(tmp_path / "study", config))
    ways = [*errors, "kill", "score", "one too many", "two too many"]
    (study.folder / "troubled.py").write_text(REWARDS.replace("WAYS", repr(ways)))
    result = study.snakemake("--until", "train")
    assert result.returncode == 1
    taken = {path.name for path in study.folder.glob("way-*")}
    assert taken == {f"way-{way}" for way in [*errors, "kill", "score"]}, result.stderr
    assert len(list(study.results.glob("runs/*/*/run.json"))) == 1
    logs = [path.read_text() for path in study.results.glob("logs/train/*/*.log")]
    lines = [line for log in logs for line in log.splitlines() if line.startswith("error: ")]
    assert ["troubled" in line for line in lines] == [True] * len(errors), result.stderr
