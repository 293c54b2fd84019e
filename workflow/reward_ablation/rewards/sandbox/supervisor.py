"""The caller's side of the server that runs programs: starts it when first needed, gives it jobs, and replaces it.

`judging` hands it the programs of a batch, in the process that trains or scores. No program runs in that process: a
program that ends the server loses its own verdict alone.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reward_ablation.rewards.killable_process import KillableProcess
from reward_ablation.rewards.sandbox import server
from reward_ablation.system.errors import StudyError

OUTPUT_BYTES = 8 << 20  # longest output of a script
MODES = ("namespaces", "landlock")

#: A program that prints what it is not allowed to do.
_CHECK = """
import os
try:
    os.fork()
except OSError:
    print("no process")
try:
    open({path!r})
except OSError:
    print("no file")
"""


@dataclass(frozen=True)
class Job:
    """A program to run: against tests, or as a script with `text` on standard input."""

    program: str
    kind: Literal["tests", "script"]
    text: str  # for tests {"tests": [...], "code_before": ...} as JSON
    seconds: int
    memory_mb: int
    all_of_them: bool = False  # whether the tests go on after the first failed one
    first_line: int = 0  # number of the program's lines before those that a model wrote


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    output: bytes  # the result of the tests, or what the script has printed
    is_late: bool = False  # whether the limit on wall time ended the job
    statuses: tuple[int, ...] = (1, 1)  # exit statuses of the script, or of the tests and of the program
    is_too_long: bool = False  # whether the script printed more than OUTPUT_BYTES

    def was_killed(self, process: int) -> bool:
        """Whether SIGKILL or SIGXCPU ended a process: at the limit on CPU time, or because it ran on after the job."""
        return self.statuses[process] in (-signal.SIGKILL, -signal.SIGXCPU)


class Sandbox(KillableProcess):
    """The server process. The ways of isolation, `modes`, are tried in their order."""

    name = "the server of the unit tests"
    reply_seconds = 60.0  # to start or end a process on a stalled machine
    patience = reply_seconds  # to end all programs

    def __init__(self, modes: Sequence[str] = MODES) -> None:
        super().__init__()
        self._modes = modes
        self.mode: str | None = None  # how the running server isolates programs; None without a server
        self._folder = ""

    def run(self, jobs: Sequence[Job], at_once: int) -> list[Outcome]:
        """Outcomes of jobs in their order; `at_once` jobs run side by side.

        A program that ends the server has an empty outcome. Only Landlock, the weaker isolation, lets a program try.
        """
        found: dict[int, Outcome] = {}
        with self.lock:
            with self.in_use():
                self._run(dict(enumerate(jobs)), at_once, found)
            for number, job in enumerate(jobs):  # the rest one by one, since one of them may have ended the server
                if number not in found:
                    with self.in_use():
                        self._run({number: job}, 1, found)
        return [found.get(number, Outcome(b"")) for number in range(len(jobs))]

    def launch(self) -> None:
        """Start the process in the first mode that keeps programs from this machine."""
        refusals = []
        for mode in self._modes:
            ready = self._start_in(mode)
            if "refused" not in ready and self._isolates():
                self.mode = mode
                line = described(mode, ready["landlock"], os.getuid() == 0)
                print(f"unit tests: {line}", file=sys.stderr, flush=True)
                return
            self.kill()
            reason = ready.get("refused", "a program could read a file, start a process, or not run at all")
            refusals.append(f"{mode}: {reason}")
        raise StudyError(
            "programs cannot be kept from this machine's files, and are not run; allow user namespaces or Landlock "
            f"(docs/tasks.md says how); refused: {'; '.join(refusals)}"
        )

    def _start_in(self, mode: str) -> dict[str, Any]:
        """Start the process and return its first message."""
        if mode == "landlock":
            self._folder = tempfile.mkdtemp(prefix="unit-tests-")
            os.chmod(self._folder, 0o711)  # programs must reach their folders below it
        # -I would ignore the hash seed. -P, -s and an environment without Python's other variables do the same.
        command = ["-s", "-S", server.__file__, mode, json.dumps(readable_paths()), self._folder]
        ready: dict[str, Any] = self.start(command, socket.SOCK_SEQPACKET, clean_environment(), cwd="/")
        return ready

    def _isolates(self) -> bool:
        """Whether a program runs, but can neither read a file of this machine nor start a process."""
        found: dict[int, Outcome] = {}
        with tempfile.NamedTemporaryFile(prefix="unit-tests-check-") as file, self.in_use():
            os.chmod(file.name, 0o644)
            self._run({0: Job(_CHECK.format(path=file.name), "script", "", 10, 1024)}, 1, found)
        return bool(found) and found[0].output == b"no process\nno file\n"

    def _run(self, jobs: dict[int, Job], at_once: int, found: dict[int, Outcome]) -> None:
        """Run jobs, `at_once` side by side, and add each outcome to `found` when its job ends."""
        waiting = list(reversed(jobs.items()))
        running: dict[int, _Running] = {}  # by pipe
        poll = select.poll()  # not select.select, which refuses descriptors above 1,023
        while waiting or running:
            while waiting and len(running) < at_once:
                started = _Running(*waiting.pop())
                pipe = self._begin(started)
                running[pipe] = started
                poll.register(pipe, select.POLLIN)
            earliest = min(one.deadline for one in running.values())
            for pipe, _ in poll.poll(max(0.0, earliest - time.monotonic()) * 1000):
                running[pipe].read(pipe)
            now = time.monotonic()
            for pipe, one in [*running.items()]:
                if one.has_ended or one.deadline <= now:
                    poll.unregister(pipe)
                    os.close(pipe)
                    del running[pipe]
                    self.send({"end": one.number})
                    statuses = tuple(self.receive()[0]["statuses"])
                    found[one.number] = Outcome(one.output, not one.has_ended, statuses, one.is_too_long)

    def _begin(self, started: _Running) -> int:
        """Start a job and return the pipe of its output."""
        job = started.job
        files = [_file(job.program), _file(job.text)]
        request = {
            "start": started.number,
            "kind": job.kind,
            "seconds": job.seconds,
            "memory_bytes": job.memory_mb << 20,
            "all_of_them": job.all_of_them,
            "first_line": job.first_line,
        }
        try:
            self.send(request, files)
            return self.receive()[1][0]
        finally:
            for descriptor in files:
                os.close(descriptor)

    def kill(self) -> None:
        """End the server and, with it, all programs."""
        if self.pid is not None:  # in a forked child the folder is the parent's
            super().kill()
            self.mode = None
            shutil.rmtree(self._folder, ignore_errors=True)


class _Running:
    """A job that runs: the output so far, and its deadline in wall time."""

    def __init__(self, number: int, job: Job) -> None:
        self.number, self.job = number, job
        self.deadline = time.monotonic() + wall_seconds(job.seconds)
        self.output = b""
        self.has_ended = False

    @property
    def is_too_long(self) -> bool:
        return len(self.output) > OUTPUT_BYTES

    def read(self, pipe: int) -> None:
        """Read the output that is ready."""
        part = os.read(pipe, 1 << 16)
        self.output += part
        self.has_ended = not part or self.is_too_long


def wall_seconds(seconds: int) -> float:
    """Limit on wall time, for a program that sleeps or a stalled machine. Usually the limit on CPU time acts first."""
    return 4.0 * seconds + 6.0  # free choices


def described(mode: str, landlock: int, is_root: bool) -> str:
    """One line that says what programs can reach on this machine and what they cannot, by the version of Landlock."""
    if mode == "namespaces":
        return "programs run in namespaces of their own: no file, no network and no process of this machine"
    reachable = ["UDP and Unix sockets"]
    if landlock < 4:
        reachable.insert(0, "TCP")
    if not is_root:
        signals = "signals, " if landlock < 6 else ""
        reachable.append(f"{signals}limits and priorities of processes of the same user")
    return f"programs run under Landlock: no file of this machine; not kept from them: {', '.join(reachable)}"


def readable_paths() -> list[str]:
    """Folders that programs may read: Python's library, the installed packages, and folders of LD_LIBRARY_PATH."""
    named = sysconfig.get_paths()
    library = os.path.join(sys.base_prefix, "lib")
    loader = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    paths = [library, named["stdlib"], named["platstdlib"], named["purelib"], named["platlib"], *loader]
    return [path for path in dict.fromkeys(paths) if os.path.isabs(path) and os.path.isdir(path)]


def clean_environment() -> dict[str, str]:
    """The environment of the server and of programs. Of the user's variables it keeps only LD_LIBRARY_PATH."""
    fixed = {
        "PYTHONHASHSEED": "0",  # the same order of sets each time
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",  # a program may have no more threads, and these libraries would wait for theirs
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    kept = ("LD_LIBRARY_PATH",)
    return fixed | {name: os.environ[name] for name in kept if name in os.environ}


def _file(text: str) -> int:
    """A file in memory with a text, open at its beginning."""
    descriptor = os.memfd_create("text")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


sandbox = Sandbox()
