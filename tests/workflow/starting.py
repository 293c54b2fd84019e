"""Start Snakemake, or a command, in a fork of a process that has already imported the slow packages (`forks`)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from .forks import hold

COMMAND_LINE = "reward_ablation.start.command_line"
FORKS = Path(__file__).with_name("forks.py")
#: What keeps the server of the forks while this process runs.
holding: list[Any] = []


@cache
def forking_python() -> str:
    """A program that is `python`, but for the commands of this project and Snakemake, which it runs in forks.

    All test processes share its server, which ends after the last of them.
    """
    folder = Path(tempfile.gettempdir(), f"forks-{os.environ.get('PYTEST_XDIST_TESTRUNUID', uuid4().hex)}")
    address, program = folder / "socket", folder / "python"
    try:
        folder.mkdir()
    except FileExistsError:  # another test process starts it
        pass
    else:
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{FORKS}" ask "{address}" "$@"\n')
        program.chmod(0o755)
        serve = [sys.executable, str(FORKS), "serve", str(address)]
        holding.append(subprocess.Popen(serve, stdin=subprocess.PIPE, start_new_session=True))
    deadline = time.monotonic() + 300
    while not address.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    holding.append(hold(str(address)))
    return str(program)


def run(
    words: Sequence[str], folder: Path, library: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """What `python -m WORDS` does in a folder, with the library in the folder `library`."""
    # Images of containers set PYTHONDONTWRITEBYTECODE, by which each process would compile the library.
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables = {**kept, "PYTHONPATH": str(library)}
    command = [forking_python(), "-m", *words]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
