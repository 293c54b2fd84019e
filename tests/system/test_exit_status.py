"""Which errors may pass by themselves, and the exit statuses for them."""

import errno
import signal
import socket
import subprocess
import sys
from http.client import IncompleteRead
from urllib.error import HTTPError, URLError

import httpx
import pytest
import requests
import torch

from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON, is_permanent, may_pass


def caused(error: Exception, cause: Exception) -> Exception:
    """An error that is raised from another one."""
    error.__cause__ = cause
    return error


def answer(status: int) -> requests.Response:
    """A web server's answer."""
    response = requests.Response()
    response.status_code = status
    return response


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError(), True),  # a judge's server, or a hub
        (httpx.ConnectError("no route"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (URLError(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")), True),
        (URLError("unknown url type: judge"), False),
        (OSError(errno.ESTALE, "Stale file handle"), True),  # a file server
        (caused(StudyError("components.judge: ..."), httpx.ReadTimeout("slow")), True),
        (RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"), True),
        (requests.HTTPError(response=answer(429)), True),
        (requests.HTTPError(response=answer(401)), False),  # the key stays wrong
        (HTTPError("http://judge", 503, "busy", None, None), True),
        (IncompleteRead(b"", 5), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),  # stays full until somebody makes room
        (StudyError("components.judge: ..."), False),
        (caused(StudyError("components.judge: ..."), KeyError("label")), False),
    ],
)
def test_errors_that_may_pass(error, passes):
    assert may_pass(error) == passes


def test_errors_of_torch():
    assert may_pass(torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered", 214))
    assert may_pass(torch.distributed.DistBackendError("NCCL error: remote process exited"))
    assert not may_pass(torch.AcceleratorError("CUDA error: device-side assert triggered", 710))
    assert not may_pass(torch.AcceleratorError("CUDA error: no kernel image is available for execution", 209))
    assert not may_pass(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        (0, False),
        (GOES_ON, False),
        (-signal.SIGKILL, False),  # as subprocess has it
        (128 + signal.SIGKILL, False),  # as a shell has it
        (1, True),
        (127, True),  # no such command
        (255, True),
    ],
)
def test_statuses(status, permanent):
    assert is_permanent(status) == permanent


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        ("StudyError('data: nothing there')", 1, "error: data: nothing there\n"),
        ("PassingError('server: gone')", GOES_ON, "error: server: gone\n"),
        (
            "ConnectionResetError('gone')",
            GOES_ON,
            "failed: ConnectionResetError: gone\nTraceback",
        ),  # of which nothing is known: all of it is shown
        ("ZeroDivisionError", 1, "failed: ZeroDivisionError\nTraceback"),
    ],
)
def test_a_command_ends_with_the_status_of_its_error(raised, status, told):
    code = "from reward_ablation.system.errors import PassingError, StudyError, one_line_errors\n"
    code += f"with one_line_errors():\n    raise {raised}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == status
    assert result.stderr.startswith(told)
