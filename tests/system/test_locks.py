"""Locks between real processes, which end in different ways."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from locks import gets_free, is_free
from reward_ablation.system.errors import StudyError
from reward_ablation.system.locks import hold_lock, wait_for

HOLD = "from reward_ablation.system.locks import take; lock = take(Path({path!r})); "
SAY_AND_SLEEP = "print('held', flush=True); time.sleep(60)"


@contextmanager
def process(code: str):
    """A Python process that has said that it holds the lock; killed in the end."""
    command = [sys.executable, "-c", f"import os, subprocess, sys, time; from pathlib import Path; {code}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def test_a_second_holder_is_refused_and_told_who_the_first_one_is(tmp_path):
    path = tmp_path / "results" / ".lock"
    with process((HOLD + SAY_AND_SLEEP).format(path=str(path))) as holder, pytest.raises(StudyError) as refusal:
        hold_lock(path, "results: {holder} works there")
    assert re.fullmatch(rf"results: process {holder.pid} on .+ \(since 20.+\) works there", str(refusal.value))


@pytest.mark.parametrize("child", ["subprocess.Popen(['sleep', '60']); ", "os.fork() or time.sleep(60); "])
def test_children_do_not_hold_the_lock_of_their_dead_parent(tmp_path, child):
    path = tmp_path / ".lock"
    with process((HOLD + child + SAY_AND_SLEEP).format(path=str(path))) as holder:
        holder.kill()
        os.waitpid(holder.pid, 0)
        assert gets_free(path)


@pytest.mark.parametrize(("keep", "free"), [("lock.keep_over_exec(); ", False), ("", True)])
def test_a_program_that_replaces_the_holder_has_the_lock_where_it_is_handed_over(tmp_path, keep, free):
    path = tmp_path / ".lock"
    program = "import subprocess, time; subprocess.Popen(['sleep', '60']); print('held', flush=True); time.sleep(60)"
    replace = f"os.execv(sys.executable, [sys.executable, '-c', {program!r}])"
    with process(HOLD.format(path=str(path)) + keep + replace) as holder:
        assert is_free(path) == free
        holder.kill()
        holder.wait()
        assert is_free(path), "what the program has started does not get the lock"


def test_waiting_tells_for_whom_once_and_then_from_time_to_time(tmp_path, capfd):
    path = tmp_path / ".lock"
    code = HOLD + "print('held', flush=True); time.sleep(1.5)"
    started = time.monotonic()
    with process(code.format(path=str(path))) as holder, wait_for(path, "seed0", tell_every=0.7):
        assert time.monotonic() - started > 1
        assert holder.wait() == 0
        assert not is_free(path)
    first, *again = capfd.readouterr().err.splitlines()
    assert first.startswith(f"seed0: waiting for process {holder.pid} on ")
    assert 1 <= len(again) <= 2
    assert again[0].endswith(" s by now")


def test_one_that_wants_it_alone_waits_for_all_that_share_it(tmp_path):
    path = tmp_path / ".lock"
    with wait_for(path, "run", shared=True):
        with wait_for(path, "run", shared=True):
            assert not is_free(path)
        assert not is_free(path)
    assert is_free(path)


def test_a_folder_that_went_while_it_was_waited_for_is_locked_anew(tmp_path):
    """Pruning deletes runs; a lock on a deleted file would keep nobody out."""
    path = tmp_path / "run" / ".lock"
    code = HOLD + "print('held', flush=True); time.sleep(1.5); import shutil; shutil.rmtree({folder!r}); time.sleep(1)"
    with process(code.format(path=str(path), folder=str(path.parent))), wait_for(path, "run"):
        assert path.exists()
        assert not is_free(path)


def test_without_file_locks_it_goes_on_with_a_warning(tmp_path, monkeypatch, capfd):
    """No file system here refuses locks: its answer is made up, the rest is real."""

    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_lock(tmp_path / ".lock", "{holder}"), wait_for(tmp_path / ".lock", "run"):
        pass
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"warning: {tmp_path / '.lock'}: this file system has no file locks") for line in lines)
