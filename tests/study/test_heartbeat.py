"""The heartbeat of a run: a written heartbeat can be read, and a new attempt begins without facts."""

import time

import pytest

from reward_ablation.study.heartbeat import FILE, SAVING, STARTING, STOPPED, TRAINING, beat, read_heartbeat


def test_facts_stay_until_the_next_attempt(tmp_path):
    before = time.time()
    beat(tmp_path, STARTING)
    beat(tmp_path, TRAINING, step=3, steps=40, reward=0.25)
    beat(tmp_path, SAVING, step=4)
    found = read_heartbeat(tmp_path)
    assert (found.doing, found.step, found.steps, found.reward) == (SAVING, 4, 40, 0.25)
    assert before <= found.at <= time.time()
    beat(tmp_path, STOPPED, why="SIGTERM")
    found = read_heartbeat(tmp_path)
    assert (found.stopped, found.why, found.step) == (True, "SIGTERM", 4)
    beat(tmp_path, STARTING)
    found = read_heartbeat(tmp_path)
    assert (found.stopped, found.step, found.reward, found.why) == (False, None, None, "")


def test_a_reward_that_is_no_number(tmp_path):
    beat(tmp_path, TRAINING, step=1, reward=float("nan"))
    found = read_heartbeat(tmp_path)
    assert (found.step, found.reward) == (1, None)


def test_a_heartbeat_that_cannot_be_written_is_left_out(tmp_path):
    (tmp_path / "file").touch()
    beat(tmp_path / "file", STARTING)
    assert read_heartbeat(tmp_path / "file") is None


@pytest.mark.parametrize("text", ["", "{}", '{"at": 1, "doing": 2}'])
def test_a_heartbeat_that_cannot_be_read(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_heartbeat(tmp_path) is None
    beat(tmp_path, TRAINING, step=3)
    assert read_heartbeat(tmp_path).step == 3


def test_a_later_version_may_say_more(tmp_path):
    (tmp_path / FILE).write_text('{"at": 1, "doing": "training", "more": 1}')
    assert read_heartbeat(tmp_path).doing == TRAINING
