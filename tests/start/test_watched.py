"""What `reward-ablation watch` shows of a study's runs, in the words of `status`."""

import time

import pytest

from reward_ablation.start import watched as module
from reward_ablation.start.watched import watched
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import LOCK
from reward_ablation.system.locks import take

from . import left_behind
from .left_behind import LeftBehind, attempt
from .test_diverged import diverge


@pytest.fixture
def left(config, tmp_path, monkeypatch):
    """A study of four runs whose files are of now."""
    monkeypatch.setattr(left_behind, "NOW", time.time())
    monkeypatch.setattr(module, "ask_slurm", lambda: ([], "it does not answer"))
    config["training"]["max_steps"] = 40
    config["arms"]["arms"]["same"] = config["arms"]["arms"]["a"]
    return LeftBehind(resolve(config, "study.yaml", tmp_path))


def test_states_are_those_of_status(left):
    done, trains, failed, _ = left.runs
    left.finish(done, attempt(3600.0, "done"))
    left.at_step(trains, 10)
    left.at_step(failed, 4, then="error: the judge does not answer\n", age=100)
    left.other_log("evaluate/base.log", "error: no space\n")
    watch = watched(left.study, code_counts=True)
    with take(left.folder(trains) / LOCK):
        states = watch.states()
    assert [run.state for run in states.runs] == ["done", "running", "failed", "not started"]
    assert [run.done for run in states.runs] == [1.0, 0.25, 0.1, None]
    assert [run.step for run in states.runs] == ["", "step 10 of 40", "step 4 of 40", ""]
    assert states.runs[1].facts.startswith("step 10 of 40, reward 0.100, ")
    assert states.runs[2].facts == "error: the judge does not answer"
    assert states.counts == "1 running, 1 failed, 1 done, 1 not started"
    assert states.lines == [
        "0 of 5 evaluations are done, the base model's included.",
        "failed: evaluate base: error: no space (log: results/study/logs/evaluate/base.log)",
        "which runs wait at Slurm is not known: it does not answer",
    ]


def test_arms_with_one_spec_are_drawn_once(left):
    about = watched(left.study, code_counts=True).about
    assert [arm["name"] for arm in about["arms"]] == ["a = same", "b", "same"]
    assert [(run["arm"], run["seed"]) for run in about["runs"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_run_that_diverges_meanwhile_is_seen(left):
    reader = module.StateReader(left.study, code_counts=True)
    assert reader.read().runs[0].state == "not started"
    diverge(left.study, left.runs[0].name)
    assert reader.read().runs[0].state == "diverged"


def test_slurm_is_asked_once_a_minute(left, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "ask_slurm", lambda: (asked.append(0) or [], ""))
    reader = module.StateReader(left.study, code_counts=True)
    reader.read()
    reader.read()
    assert len(asked) == 1
    monkeypatch.setattr(module, "SLURM_EVERY", -1.0)
    reader.read()
    assert len(asked) == 2
