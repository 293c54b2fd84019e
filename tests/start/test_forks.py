"""Commands in forks do the same as in separate processes, and share only imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from reward_ablation.start.forks import Forks

HOSTILE = ["it's", 'a "b"', "$(touch PWNED)", "`touch PWNED`", "{run} <results>", "", "two\nlines", "ünï", "\udcff"]

#: Notes each import of the module.
IMPORTED = """
import os
with open("imported", "a") as file:
    print(os.getpid(), file=file)
state = []
"""
SAYS = """
import json, os, sys
import imported
if __name__ == "__main__":
    imported.state.append(1)
    print(json.dumps([sys.argv[1:], imported.state, os.getcwd(), sys.stdin.read()]))
    print("on stderr", file=sys.stderr)
"""
ENDS = """
import os, sys, time
if __name__ == "__main__":
    match sys.argv[1]:
        case "exit":
            sys.exit(3)
        case "raise":
            raise ValueError("what is wrong")
        case "kill":
            os.kill(os.getpid(), 9)
        case "wait":
            print(os.getpid(), os.getppid(), flush=True)
            time.sleep(600)
"""
#: Asks for a command that waits, in a process of its own.
ASKS = """
import sys
from reward_ablation.start.forks import Forks
Forks().run("ends", ["wait"], sys.argv[1])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with the commands."""
    monkeypatch.chdir(tmp_path)
    for name, code in {"imported": IMPORTED, "says": SAYS, "ends": ENDS}.items():
        Path(f"{name}.py").write_text(code)
    return tmp_path


@pytest.fixture(params=["linux", "darwin"])
def forks(request, folder, monkeypatch):
    """Forks, and single processes as on macOS."""
    monkeypatch.setattr(sys, "platform", request.param)
    return Forks()


def said(log):
    """Arguments, state, folder and input that a command had."""
    return json.loads(Path(log).read_text().splitlines()[0])


def test_a_command_has_its_arguments_streams_and_folder(forks, folder):
    forks.run("says", HOSTILE, "log")
    assert said("log") == [HOSTILE, [1], str(folder), ""]
    assert Path("log").read_text().endswith("on stderr\n")
    assert not Path("PWNED").exists()


def test_commands_share_imports_and_no_state(forks):
    for number in range(3):
        forks.run("says", [], f"log{number}")
        assert said(f"log{number}")[1] == [1]
    imports = Path("imported").read_text().splitlines()
    assert len(imports) == (1 if sys.platform == "linux" else 3)


def test_many_at_once_get_what_is_theirs(forks):
    def number_of(number):
        forks.run("says", [str(number), *["x" * 100_000] * number], f"log{number}")
        return said(f"log{number}")[0][0]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(number_of, range(12))) == [str(number) for number in range(12)]


@pytest.mark.parametrize(("way", "status", "log"), [("exit", 3, ""), ("raise", 1, "what is wrong"), ("kill", -9, "")])
def test_a_command_that_fails_tells_how_and_takes_no_other_with_it(forks, way, status, log):
    with pytest.raises(subprocess.CalledProcessError) as error:
        forks.run("ends", [way], "log")
    assert error.value.returncode == status
    assert log in Path("log").read_text()
    forks.run("says", [], "log")


def test_a_module_that_cannot_be_imported_says_so_in_the_log(forks):
    Path("broken.py").write_text("import no_such_module")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            forks.run("broken", [], "log")
        assert "No module named 'no_such_module'" in Path("log").read_text()


@pytest.fixture
def waiting(folder):
    """A process that waits for a command, the command's id, and that of the command's parent."""
    command = [sys.executable, "-c", ASKS, "log"]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE) as asking:
        try:
            while not (Path("log").exists() and Path("log").read_text().endswith("\n")):
                assert asking.poll() is None
                time.sleep(0.05)
            yield asking, *map(int, Path("log").read_text().split())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(asking.pid, signal.SIGKILL)


def test_ctrl_c_ends_the_command_and_who_asked(waiting):
    asking, command, _ = waiting
    os.killpg(asking.pid, signal.SIGINT)
    assert asking.stderr.read().endswith(b"KeyboardInterrupt\n")  # to the end of the last process that can write there
    assert Path("log").read_text().endswith("KeyboardInterrupt\n")
    with pytest.raises(ProcessLookupError):
        os.kill(command, 0)


def test_no_process_is_left_when_the_one_who_asked_is_killed_and_the_command_has_ended(waiting):
    asking, command, _ = waiting
    asking.kill()
    os.kill(command, signal.SIGTERM)
    assert asking.stderr.read() == b""  # to the end of the last process that can write there


def test_a_command_whose_watcher_is_killed_has_failed(waiting):
    asking, _, watcher = waiting
    os.kill(watcher, signal.SIGKILL)
    assert asking.wait(60) == 1
    assert b"died with <Signals.SIGKILL: 9>" in asking.stderr.read()


def test_the_process_is_started_again_where_it_was_killed(folder):
    forks = Forks()
    forks.run("says", [], "log")
    forks._server.kill()
    forks._server.wait()
    forks.run("says", ["again"], "log")
    assert said("log")[0] == ["again"]
