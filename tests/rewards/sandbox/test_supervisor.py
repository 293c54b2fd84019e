"""The server of the sandbox: started when needed, replaced when it ends, gone with its starter."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from reward_ablation.rewards.sandbox import supervisor
from reward_ablation.rewards.sandbox.supervisor import Job, Sandbox, described
from reward_ablation.system.errors import StudyError

from ..processes import descendants, is_running, wait_until

HELLO = Job("print('hello')", "script", "", 2, 512)


def hello(runner):
    return runner.run([HELLO], 1)[0].output


def test_with_the_server_all_programs_end(runner):
    hello(runner)
    server = runner.pid
    sleep = Job("import time\ntime.sleep(600)", "script", "", 2, 512)
    waiting = threading.Thread(target=runner.run, args=([sleep] * 2, 2))
    waiting.start()
    wait_until(lambda: len(descendants(server)) >= 2)
    programs = descendants(server)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in programs))
    # The jobs are run again, one by one, since their server may have ended through one of them.
    while waiting.is_alive():
        if runner.mode:  # it has started
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(runner.pid, signal.SIGKILL)
        waiting.join(0.2)
    assert hello(runner) == b"hello\n"


def test_ends_with_its_starter_even_if_that_is_killed(runner):
    script = (
        "import threading, time\n"
        "from reward_ablation.rewards.sandbox.supervisor import Job, Sandbox\n"
        f"runner = Sandbox({runner._modes!r})\n"
        "job = Job('import time; time.sleep(600)', 'script', '', 2, 512)\n"
        "threading.Thread(target=runner.run, args=([job], 1), daemon=True).start()\n"
        "while runner.mode is None: time.sleep(0.01)\n"
        "print(runner.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], **quiet) as process:
        server = int(process.stdout.readline())
        wait_until(lambda: descendants(server))
        started = [server, *descendants(server)]
        process.kill()
    wait_until(lambda: not any(is_running(pid) for pid in started))


def test_signals_to_all_processes_of_a_job_do_not_end_it(runner):
    """Slurm sends SIGTERM to all of them, but a training goes on to the end of its step. Programs go on, too."""
    hello(runner)
    server, found = runner.pid, []
    job = Job("import time\ntime.sleep(2)\nprint('done')", "script", "", 2, 512)
    waiting = threading.Thread(target=lambda: found.extend(runner.run([job], 1)))
    waiting.start()
    idle = 1 if runner.mode == "namespaces" else 0  # a process that waits for the server
    wait_until(lambda: len(descendants(server)) > idle)
    for pid in (server, *descendants(server)):
        os.kill(pid, signal.SIGTERM)
    waiting.join()
    os.kill(server, signal.SIGINT)
    assert found[0].output == b"done\n"
    assert hello(runner) == b"hello\n"
    assert runner.pid == server


def test_a_machine_without_means_runs_no_program():
    with pytest.raises(StudyError, match=r"^programs cannot be kept from this machine's files, and are not run; .*$"):
        Sandbox(()).run([HELLO], 1)


def test_a_server_that_does_not_isolate_is_refused(monkeypatch):
    """This happens, for example, if the kernel does not limit the processes of a container's root."""
    monkeypatch.setattr(supervisor, "_CHECK", "print('no process')\n")
    with pytest.raises(StudyError, match="a program could read a file"):
        Sandbox().run([HELLO], 1)


@pytest.mark.parametrize(
    ("mode", "landlock", "is_root", "reachable"),
    [
        ("namespaces", 0, False, ": no file, no network and no process of this machine"),
        ("landlock", 1, True, ": TCP, UDP and Unix sockets"),
        ("landlock", 4, False, ": UDP and Unix sockets, signals, limits and priorities of processes of the same user"),
    ],
)
def test_what_is_not_isolated_is_told(mode, landlock, is_root, reachable):
    assert described(mode, landlock, is_root).endswith(reachable)


def test_neither_open_files_nor_folders_are_left(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    own = Sandbox(runner._modes)
    own.run([HELLO] * 20, 4)
    assert len(list(tmp_path.rglob("*"))) == (1 if own.mode == "landlock" else 0)
    os.kill(own.pid, signal.SIGKILL)
    own.run([HELLO], 1)
    own.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(tmp_path.iterdir()) == []
