"""Which errors may pass by themselves, and the exit statuses for them."""

import errno
import signal
import socket
import subprocess
import sys
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


def answered(status: int) -> requests.HTTPError:
    """An error of requests after a web server's answer."""
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(response=response)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError(), True),  # a judge's server, or a hub
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (URLError(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")), True),
        (URLError("unknown url type: judge"), False),
        (OSError(errno.ESTALE, "Stale file handle"), True),  # a file server
        (OSError(errno.ENOSPC, "No space left on device"), False),  # stays full until somebody makes room
        (caused(StudyError("components.judge: ..."), httpx.ReadTimeout("slow")), True),
        (caused(StudyError("components.judge: ..."), KeyError("label")), False),
        (answered(429), True),
        (answered(401), False),  # the key stays wrong
        (HTTPError("http://judge", 503, "busy", None, None), True),
        (RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"), True),
        (torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered", 214), True),
        (torch.AcceleratorError("CUDA error: device-side assert triggered", 710), False),
        (torch.distributed.DistBackendError("NCCL error: remote process exited"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_errors_that_may_pass(error, passes):
    assert may_pass(error) == passes


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        (0, False),
        (GOES_ON, False),
        (-signal.SIGKILL, False),  # as subprocess has it
        (128 + signal.SIGKILL, False),  # as a shell has it
        (1, True),
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
        # of which nothing is known: all of it is shown
        ("ConnectionResetError('gone')", GOES_ON, "failed: ConnectionResetError: gone\nTraceback"),
        ("ZeroDivisionError", 1, "failed: ZeroDivisionError\nTraceback"),
    ],
)
def test_a_command_ends_with_the_status_of_its_error(raised, status, told):
    code = "from reward_ablation.system.errors import PassingError, StudyError, one_line_errors\n"
    code += f"with one_line_errors():\n    raise {raised}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == status
    assert result.stderr.startswith(told)
