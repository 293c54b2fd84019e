"""The command `python -m reward_ablation.models`, whose imports are paid once: each command runs in a fork."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from hub import Hub

SERVER = """
import json, os, sys
import huggingface_hub, torch, transformers
from reward_ablation.models.__main__ import main
from reward_ablation.system.errors import one_line_errors

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(f"{asked['folder']}/{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
        os.umask(asked["umask"])
        status = 0
        try:
            with one_line_errors():
                main(asked["arguments"])
        except SystemExit as error:
            status = error.code
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Commands:
    """Commands that know one hub."""

    def __init__(self, hub: Hub, folder: Path):
        self.folder = folder
        command, environment = [sys.executable, "-c", SERVER], hub.environment(folder)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.server = subprocess.Popen(command, env=environment, text=True, **pipes)

    def run(self, *arguments: object, umask: int = 0o022) -> Result:
        asked = {"arguments": [*map(str, arguments)], "umask": umask, "folder": str(self.folder)}
        self.server.stdin.write(json.dumps(asked) + "\n")
        self.server.stdin.flush()
        status = int(self.server.stdout.readline())
        return Result(status, *((self.folder / name).read_text() for name in ("stdout", "stderr")))

    def close(self) -> None:
        self.server.communicate()
