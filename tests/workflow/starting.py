"""Start Snakemake in a fork of a process that has already imported the slow packages.

Nothing of this repository is imported before the fork, because the fork reads the library from the given folder. Nor is
Snakemake, which imports this repository's executor.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
# What takes longest of what Snakemake imports; pytest, as each child imports the main module of its parent.
FORKS.set_forkserver_preload(["pandas", "sqlmodel", "pydantic", "pytest"])


def snakemake(
    arguments: Sequence[str], folder: Path, library: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """What `snakemake` with these arguments does in a folder.

    Parameters
    ----------
    arguments : sequence of str
        Words of the command line behind `snakemake`.
    folder : Path
        Working folder.
    library : Path
        Folder that holds `reward_ablation`.
    environment : mapping of str
        All environment variables.

    Returns
    -------
    subprocess.CompletedProcess
        As of `subprocess.run` with `capture_output` and `text`.
    """
    with tempfile.TemporaryDirectory() as written:
        outputs = [f"{written}/stdout", f"{written}/stderr"]
        given = ([*arguments], str(folder), str(library), dict(environment), outputs)
        process = FORKS.Process(target=_start, args=given)
        process.start()
        process.join()
        assert process.exitcode is not None
        told = [Path(file).read_text() if os.path.exists(file) else "" for file in outputs]
    return subprocess.CompletedProcess(["snakemake", *arguments], process.exitcode, *told)


def command_line(
    folder: Path, library: Path, environment: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    """What `reward-ablation WORDS` does in a folder, with the library in the folder `library`."""
    command = [sys.executable, "-m", "reward_ablation.start.command_line", *words]
    variables = {**environment, "PYTHONPATH": str(library)}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def _start(arguments: list[str], folder: str, library: str, environment: dict[str, str], outputs: list[str]) -> None:
    """Be `python -m snakemake` with these arguments."""
    for number, file in enumerate(outputs, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    os.environ["PYTHONPATH"] = library
    os.chdir(folder)
    # As Python begins, without the folders of the tests.
    installed = [place for place in sys.path if place.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [folder, library, *installed]
    assert "reward_ablation" not in sys.modules
    sys.argv = ["snakemake", *arguments]

    from snakemake.cli import main

    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which a fork leaves out
