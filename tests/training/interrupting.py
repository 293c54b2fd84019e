"""Ways to interrupt a run, a run in a process of its own, and digests of a run's files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from transformers import TrainerCallback

from reward_ablation.system.files import sha256

#: Save at every second step; the runs of these tests have four.
SAVING = {"save_strategy": "steps", "save_steps": 2}


class StopAt(TrainerCallback):
    """End the process's work at a step, as a kill would: nothing after it is written."""

    def __init__(self, step: int):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


class SignalIn(TrainerCallback):
    """Send this process a signal in the midst of a step."""

    def __init__(self, step: int, number: int = signal.SIGTERM):
        self.step, self.number = step, number

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step + 1 == self.step:
            os.kill(os.getpid(), self.number)


@contextmanager
def started(command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A process that goes on while the test does something to it; killed in the end."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(text: str, log: Path, process: subprocess.Popen) -> str:
    """The rest of the first line with this text, a regular expression, once the log of a process has it."""
    deadline = time.monotonic() + 300
    while True:
        said = log.read_text() if log.exists() else ""
        if found := re.search(f"{text}(.*)\n", said):
            return found[1]
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.05)


def digests(run: Path) -> dict[str, str]:
    """Current digests of all outputs of a run, without `run.json`, which contains times."""
    record = json.loads((run / "run.json").read_text())
    found = {name: sha256(run / name) for name in record["files"]}
    assert found == record["files"]
    return found


def attempts(run: Path) -> list[tuple[int, int, str]]:
    """First and last step of each attempt, and how it ended; the last step of a killed one is not known, -1."""
    return [
        (attempt["from_step"], -1 if attempt["ended"] == "killed" else attempt["to_step"], attempt["ended"])
        for attempt in json.loads((run / "run.json").read_text())["attempts"]
    ]


#: What Python reports of itself when files change (see its table of audit events); writes in C come between these.
FILE_OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}


def killed_at(operation: int, folder: Path, work: Callable[[], None]) -> bool:
    """Do some work in a child process that is killed at its n-th file operation below a folder.

    SIGKILL ends the child just before the operation. Files that are opened only for reading do not count. Returns False
    if the work ended before.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def watch(event: str, arguments: tuple) -> None:
            nonlocal seen
            if event not in FILE_OPERATIONS or not str(arguments[0]).startswith(str(folder)):
                return
            if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
            seen += 1
            if seen == operation:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "the work itself failed: see its traceback"
    return status != 0
