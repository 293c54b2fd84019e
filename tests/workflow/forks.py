"""`python -m MODULE`, or `python SCRIPT.py`, in a fork of a process that has already imported the large packages.

A study starts a dozen processes, and each would import them for longer than it then works. Nothing of this repository
is imported before the fork, because the fork reads the library from its own PYTHONPATH. Snakemake gets
this repository's executor in the fork. Python itself runs all other commands, and all that a test starts by
`sys.executable`. A script is given torch.

    python forks.py serve SOCKET          fork for each command, until standard input and all that hold it have ended
    python forks.py ask SOCKET WORDS      be `python WORDS`
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from functools import cache

FORKED = ("reward_ablation.", "snakemake", "torch.distributed.run")
#: What takes longest of what Snakemake and most commands import.
SMALL = (
    *("pandas", "pyarrow.parquet", "scipy.stats", "pydantic", "jinja2", "matplotlib.pyplot", "sqlmodel", "requests"),
    *("jsonschema", "smart_open", "rich.console", "typer"),
)
#: Of what the other commands import. They have a server of their own: to fork a process with torch takes longer.
LARGE = (
    "trl.trainer.grpo_trainer",
    "transformers.models.llama.modeling_llama",
    "peft",
    "datasets",
    "safetensors.torch",
)
#: Modules, or packages, of commands that import torch.
WITH_TORCH = ("training", "evaluation", "models", "sft", "torch.distributed.run")
#: A variable with which figures are drawn and not rendered.
BLANK = "REWARD_ABLATION_TESTS_BLANK_FIGURES"
#: Options with which Snakemake only looks.
LOOKS = {"--dry-run", "-n", "--report", "--summary", "--dag", "--rulegraph"}
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ELSEWHERE = b"other"
#: What a process sends that needs the server until it ends, and what is sent with a command's outputs.
HOLD, COMMAND = b"h", b"."


def large_of(address: str) -> str:
    """Address of the server that has imported torch."""
    return f"{address}-large"


def hold(address: str) -> socket.socket:
    """A connection by which the server knows that this process may still give it commands."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    server.send(HOLD)
    return server


def ask(address: str, words: list[str]) -> None:
    """Have the server run a command with the outputs, folder and environment of this process, and end as it ends."""
    given = words[words[:1] == ["-u"] :]
    if given[:1] == ["-m"] and given[1].startswith(FORKED):
        given = given[1:]
    elif not given[:1] or not given[0].endswith(".py"):
        os.execv(sys.executable, [sys.executable, *words])
    command = json.dumps([given, os.getcwd(), dict(os.environ)]).encode() + b"\n"
    for place in (address, large_of(address)):
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(place)
            for number in PASSED_ON:
                signal.signal(number, lambda number, _, server=server: server.send(bytes([number])))
            socket.send_fds(server, [COMMAND], [0, 1, 2])
            server.sendall(command)
            status = server.recv(8)
        if status != ELSEWHERE:
            break
    if int(status) < 0:
        if -int(status) != signal.SIGKILL:  # has no handler
            signal.signal(-int(status), signal.SIG_DFL)
        os.kill(os.getpid(), -int(status))
    os._exit(int(status))


def serve(address: str) -> str:
    """Fork for each command, and tell how it ended. Returns in the forks alone: the module that one is to run."""
    import select

    is_large = address == large_of(address.removesuffix("-large"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{address}.new")
    listening.listen()
    os.rename(f"{address}.new", address)  # who sees it can connect
    for name in LARGE if is_large else SMALL:
        importlib.import_module(name)
    import_snakemake()
    gc.freeze()
    running: dict[socket.socket, tuple[int, int]] = {}  # by client: its process, and the descriptor of the process
    holders = {sys.stdin}
    while holders:
        waiting = {ended: client for client, (_, ended) in running.items()}
        ready = {*select.select([listening, *holders, *running, *waiting], [], [])[0]}
        holders -= ready  # they send nothing: they have ended
        for client in ready & running.keys():
            pass_on(client, running[client][0])
        for ended in ready & waiting.keys():
            tell_end(waiting[ended], *running.pop(waiting[ended]))
        if listening not in ready:
            continue
        client, _ = listening.accept()
        kind, outputs, _, _ = socket.recv_fds(client, 1, 3)
        if kind == HOLD:
            holders.add(client)
            continue
        with client.makefile() as lines:
            words, folder, environment = json.loads(lines.readline())
        needs_torch = words[0].endswith(".py") or words[0].removeprefix("reward_ablation.").startswith(WITH_TORCH)
        # A start asks TRL for its rules in a fork of its own.
        needs_torch |= words[0] == "snakemake" and not LOOKS.intersection(words)
        if needs_torch and not is_large:
            start_large(address)
            with client:
                client.send(ELSEWHERE)
        elif process := os.fork():
            with contextlib.suppress(PermissionError, ProcessLookupError):  # it has done so itself
                os.setpgid(process, process)
            running[client] = process, os.pidfd_open(process)
        else:
            for each in (listening, client, *running, *holders - {sys.stdin}):
                each.close()
            return become(words, folder, environment, outputs, f"{os.path.dirname(address)}/python")
        for output in outputs:
            os.close(output)
    if not is_large:
        shutil.rmtree(os.path.dirname(address))
    os._exit(0)


def pass_on(client: socket.socket, process: int) -> None:
    """Send a client's signals to its process."""
    for number in client.recv(8) or [signal.SIGKILL]:  # without a byte, the client was killed
        # Ctrl-C and a power cut meet all that the command has started.
        (os.killpg if number in (signal.SIGINT, signal.SIGKILL) else os.kill)(process, number)


def tell_end(client: socket.socket, process: int, descriptor: int) -> None:
    """Tell a client how its process has ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(descriptor)
    with contextlib.suppress(OSError), client:
        client.send(str(status).encode())


def import_snakemake() -> None:
    """Import Snakemake with its plugins while no module of this repository can be found."""
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if not os.path.isdir(os.path.join(entry, "reward_ablation"))]
    importlib.import_module("snakemake.cli").get_argument_parser()
    sys.path[:] = path
    importlib.invalidate_caches()


def add_own_executor() -> None:
    """Let Snakemake have this repository's executor, which was not there when it looked for plugins."""
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    name = "snakemake_executor_plugin_slurm_study"
    ExecutorPluginRegistry().register_plugin(name, importlib.import_module(name))


@cache
def start_large(address: str) -> subprocess.Popen[bytes]:
    """Start the server that imports torch, and wait until it listens."""
    command = [sys.executable, __file__, "serve", large_of(address)]
    large = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    while not os.path.exists(large_of(address)):
        assert large.poll() is None
    return large


def become(words: list[str], folder: str, environment: dict[str, str], outputs: list[int], python: str) -> str:
    """Take over a command's outputs, folder, environment and arguments; the module or the script to run.

    `python` is the program that the processes which this one starts shall run as Python: they are forks, too.
    """
    os.setpgid(0, 0)  # a signal to its group does not reach the server
    for number, output in enumerate(outputs):
        os.dup2(output, number)
        os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = python
    os.environ["PATH"] = f"{os.path.dirname(python)}{os.pathsep}{os.environ['PATH']}"
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    own = os.path.dirname(os.path.abspath(words[0])) if words[0].endswith(".py") else folder
    first = "" if environment.get("PYTHONSAFEPATH") else own
    sys.path[:1] = filter(None, [first, *environment.get("PYTHONPATH", "").split(os.pathsep)])
    sys.argv[:] = words
    assert "reward_ablation" not in sys.modules
    if words[0] == "snakemake":
        add_own_executor()
    if words[0] == "reward_ablation.figures" and BLANK in environment:
        sys.path.append(os.path.dirname(__file__))
        return "blank_figures"
    return words[0]


def run(given: str) -> int:
    """Run a script or a module as Python does; the exit status."""
    import runpy

    try:
        if given.endswith(".py"):
            runpy.run_path(given, run_name="__main__")
        else:
            runpy.run_module(given, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3:])
    status = run(serve(sys.argv[2]))
    # As Python ends, but without taking all modules apart: with torch that takes longer than most commands.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
