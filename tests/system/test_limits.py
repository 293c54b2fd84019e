"""Work that takes too much memory or time, crashes, or panics."""

from __future__ import annotations

import os
import signal
import time

import pytest

from reward_ablation.system import limits
from reward_ablation.system.errors import StudyError
from reward_ablation.system.limits import memory_limit, within_limits

MIB = 2**20


def study_error():
    raise StudyError("model: wrong\nhere")


def panic():
    raise BaseException("panic")  # as pyo3's PanicException, which is no Exception


def loop():
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (study_error, "model: wrong"),
        (panic, "^it fails: BaseException: panic$"),
        (lambda: bytes(1000 * MIB), "^it takes more than 0.5 GiB of memory$"),
        (loop, "^it takes more than 1 seconds, or more memory than there is$"),
        (lambda: time.sleep(1000), "^it takes more than 1 seconds, or more memory than there is$"),
        (lambda: os.write(2, b"lost") and os.kill(os.getpid(), signal.SIGSYS), "^it crashes: Bad system call$"),
    ],
)
def test_work_beyond_the_limits_is_one_line(work, message, capfd, monkeypatch):
    monkeypatch.setattr(limits, "WAITS", 2)
    with pytest.raises(StudyError, match=message) as caught:
        within_limits(work, 1, 512 * MIB, "it")
    assert str(caught.value).isprintable()
    assert capfd.readouterr() == ("", "")


def test_memory_is_free_again_after_a_limit():
    message = r"^it takes more than 0\.0625 GiB of memory; make it smaller$"
    with pytest.raises(StudyError, match=message), memory_limit(64 * MIB, "it", "; make it smaller"):
        bytes(1000 * MIB)
    bytes(1000 * MIB)
    with pytest.raises(KeyError), memory_limit(64 * MIB, "it"):
        {}["other errors"]
