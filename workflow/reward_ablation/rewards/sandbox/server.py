"""The server, started by `supervisor` as a script: it forks for every program, and does nothing else.

The server has one thread. It neither reads nor holds programs, tests, verdicts or the caller's environment: it passes
programs and tests on as open files. A fork of the server therefore holds nothing that a program must not know.

Requests and replies are JSON packets on one socket:

- {"start": id, "kind": "tests", ...} comes with two files, the program and its tests; {"kind": "script"} comes with the
  program and its standard input. The reply has a pipe: the result of the tests, or the standard output.
- {"end": id} ends what is left of a job. The reply has the exit status of each of its processes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import sys
import time
import types
from typing import Any

#: Modules that are imported before the first fork, because most programs need some of them.
COMMON = (
    *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools"),
    *("math", "operator", "random", "re", "string", "typing"),
)
_PACKAGE = "reward_ablation.rewards.sandbox"
#: Signals that Slurm sends to all processes of a job. They are for the starter, with which this process ends.
_FOR_THE_STARTER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Server:
    """Starts and ends jobs, and keeps the processes and the folder of each job by its id.

    `control` is the socket to the supervisor, `isolation` the module of this name, and `paths` the folders that
    programs may read. `where` has the flags of a program's namespaces or, under Landlock, the folder of all programs.
    """

    def __init__(self, control: socket.socket, isolation: Any, paths: list[str], where: int | str) -> None:
        self._control, self._isolation, self._paths, self._where = control, isolation, paths, where
        self._jobs: dict[int, tuple[list[int], str | None]] = {}  # processes and, under Landlock, the folder

    def run(self) -> None:
        """Answer requests until the caller ends."""
        while True:
            packet, files, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
            if not packet:
                return
            request = json.loads(packet)
            try:
                if "start" in request:
                    self._start(request, files)
                else:
                    self._reply(ended=request["end"], statuses=self._end(request["end"]))
            except OSError as error:  # the system gives no process, no pipe or no memory
                self._reply(failed=str(error))
            finally:
                for descriptor in files:
                    os.close(descriptor)

    def end_all(self) -> None:
        """End all jobs."""
        for job in list(self._jobs):
            self._end(job)

    def _reply(self, *files: int, **message: Any) -> None:
        socket.send_fds(self._control, [json.dumps(message).encode() + b"\n"], files)

    def _start(self, request: dict[str, Any], files: list[int]) -> None:
        """Start the processes of a job, and reply with the pipe of its output."""
        folder = _open_folder(self._where) if isinstance(self._where, str) else None
        processes: list[int] = []
        self._jobs[request["start"]] = (processes, folder)
        read_end, write_end = os.pipe()
        between = socket.socketpair()  # for the calls between the tests and the program
        try:
            if request["kind"] == "tests":
                processes.append(self._fork("tests", request, [files[1], write_end, between[0].fileno()], folder))
                processes.append(self._fork("program", request, [files[0], between[1].fileno()], folder))
            else:
                processes.append(self._fork("script", request, [files[0], files[1], write_end], folder))
            self._reply(read_end, started=request["start"])
        except OSError:
            self._end(request["start"])
            raise
        finally:
            for end in (read_end, write_end):
                os.close(end)
            for one in between:
                one.close()

    def _fork(self, role: str, request: dict[str, Any], files: list[int], folder: str | None) -> int:
        process = os.fork() if folder is not None else self._isolation.fork_in_namespaces(self._where)
        if process:
            return process
        try:
            self._be(role, request, files, folder)
        finally:
            os._exit(1)

    def _be(self, role: str, request: dict[str, Any], files: list[int], folder: str | None) -> None:
        """In the child: set the limits, then take the role."""
        if folder is None:
            self._isolation.confine_in_namespaces()
        else:
            self._isolation.confine_by_landlock(self._paths, folder)
        text = _content(files[0])
        null = os.open("/dev/null", os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        if role == "script":
            os.dup2(files[1], 0)
            os.dup2(files[2], 1)
        self._isolation.close_all_but([0, 1, 2, *({} if role == "script" else files[1:])])
        self._isolation.limit(request["seconds"], request["memory_bytes"])
        play(role, text, files, request)

    def _end(self, job: int) -> list[int]:
        """End the processes of a job. Returns their exit statuses; after a signal, its number times -1."""
        processes, folder = self._jobs.pop(job, ([], None))
        statuses = []
        for process in processes:
            os.kill(process, signal.SIGKILL)
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        if folder is not None:
            self._isolation.remove_shared_memory(processes)
            with contextlib.suppress(OSError):
                os.chmod(folder, 0o700)  # the program may have changed its mode
            shutil.rmtree(folder, ignore_errors=True)  # a program can make no folder in it
        return statuses


def play(role: str, text: str, files: list[int], request: dict[str, Any]) -> None:
    """Run a program, its tests (JSON) or a script, in a process that has its limits, with the files of the role."""
    from reward_ablation.rewards.sandbox import processes

    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    if role == "tests":
        tests = json.loads(text)
        result = processes.run_tests(tests["tests"], tests["code_before"], files[2], request["all_of_them"])
        os.write(files[1], json.dumps(result).encode() + b"\n")
    elif role == "program":
        processes.serve_program(text, request["first_line"], files[1])
    else:
        processes.run_script(text, request["first_line"])


def _content(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def _open_folder(where: str) -> str:
    folder = os.path.join(where, str(time.monotonic_ns()))
    os.mkdir(folder, 0o700)
    if os.getuid() == 0:
        os.chmod(folder, 0o777)  # the program runs as nobody
    return folder


def _import_package(folder: str) -> Any:
    """Import the modules of the sandbox without its parent packages, which would import more."""
    name = ""
    for part in _PACKAGE.split("."):
        name = f"{name}.{part}".lstrip(".")
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [folder] if name == _PACKAGE else []
    from reward_ablation.rewards.sandbox import isolation, processes  # noqa: F401

    return isolation


def main() -> None:
    """Isolate this process, and serve until the caller ends."""
    # The command line has the mode, a JSON list of the folders that programs may read, and Landlock's folder.
    control = socket.socket(fileno=0)
    mode, paths = sys.argv[1], json.loads(sys.argv[2])
    isolation = _import_package(os.path.dirname(os.path.abspath(__file__)))
    sys.path += [path for path in paths if path.endswith("-packages")]
    for name in COMMON:
        __import__(name)
    for number in _FOR_THE_STARTER:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    where: int | str = sys.argv[3]
    try:
        if mode == "namespaces":
            where = isolation.enter_namespaces(paths)
        elif not isolation.landlock_version():
            raise OSError("no Landlock")
    except OSError as error:
        control.send(json.dumps({"refused": str(error)}).encode() + b"\n")
        return
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    server = Server(control, isolation, paths, where)
    control.send(json.dumps({"ready": mode, "landlock": isolation.landlock_version()}).encode() + b"\n")
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    server.end_all()
    shutil.rmtree(sys.argv[3], ignore_errors=True)


if __name__ == "__main__":
    main()
