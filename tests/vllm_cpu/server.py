"""A vLLM server on a CPU, from `with` to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from .environment import environment

OPTIONS = ["--enable-scale-out", "--weight-transfer-config", '{"backend":"nccl"}']
OPTIONS += ["--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1", "--max-model-len", "256"]
#: Seconds that it has to start.
PATIENCE = 240


def free_port() -> int:
    """A port of the loopback that nobody has, for now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def serve(model: Path, log: Path, **variables: str) -> Iterator[str]:
    """Serve the model as TRL wants it served: gives the address.

    Parameters
    ----------
    model : Path
        Folder of the model.
    log : Path
        Gets what the server says.
    **variables : str
        More of its environment.
    """
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model), *OPTIONS]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        server = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(VLLM_SERVER_DEV_MODE="1", **variables),
            start_new_session=True,  # its engine and worker end with it
        )
    try:
        wait_until_up(server, url, log)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait_until_up(server: subprocess.Popen, url: str, log: Path) -> None:
    """Return when the server answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(f"{url}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"no server within {PATIENCE} s:\n{log.read_text()[-4000:]}")
