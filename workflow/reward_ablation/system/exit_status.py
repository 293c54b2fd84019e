"""Exit statuses of the workflow's commands, which say whether the same command, started again, can succeed.

A command ends with `GOES_ON` if it was stopped, or met an error that may pass by itself. A command that a signal ended
may also succeed. Any other status above 0 means an error that stays until the user fixes it, so that nothing is started
again. `reward-ablation run` (`start.reruns`), the Slurm executor and the launcher of a run's processes decide by it.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket

#: The command was stopped, or met an error that may pass. Started again, it resumes from what is done.
GOES_ON = os.EX_TEMPFAIL

#: Errors of file servers, networks and devices that come and go.
PASSING = {
    errno.EAGAIN,
    errno.EBUSY,
    errno.EIO,
    errno.ENOLCK,
    errno.ESTALE,
    errno.EREMOTEIO,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}

#: Errors of other packages that come and go, by name: this module imports none of the packages.
PASSING_CLASSES = {
    "aiohttp.client_exceptions.ClientConnectionError",
    "http.client.IncompleteRead",
    "httpx.TransportError",
    "requests.exceptions.ChunkedEncodingError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "torch.AcceleratorError",
    "torch.distributed.DistError",
}

#: Texts of errors of torch without a class of their own: a process of the run has ended, or a GPU fails.
PASSING_TEXT = re.compile(
    r"gloo|Connection (closed|reset) by peer|CUDA driver initialization failed|CUBLAS_STATUS_EXECUTION_FAILED"
)
#: Texts of permanent errors of a GPU: an index out of range, or a torch that is not built for this GPU.
STAYING_TEXT = re.compile("device-side assert|no kernel image")
#: Status codes of a web server that is busy or broken. Any other error status is permanent.
BUSY = {408, 425, 429, 500, 502, 503, 504, 529}


def may_pass(error: BaseException | None) -> bool:
    """Whether an error, or an error in its chain of direct causes, may be gone when the command is started again."""
    while error is not None:
        if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
            return True
        if isinstance(error, OSError) and error.errno in PASSING:
            return True
        names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
        if names & PASSING_CLASSES and not STAYING_TEXT.search(str(error)):
            return True
        if isinstance(error, RuntimeError) and PASSING_TEXT.search(str(error)):
            return True
        if _http_status(error) in BUSY:
            return True
        reason = getattr(error, "reason", None)  # urllib keeps the cause there
        error = error.__cause__ or (reason if isinstance(reason, BaseException) else None)
    return False


def _http_status(error: BaseException) -> int | None:
    """Status of the web server's answer that caused an error of requests, httpx or urllib; None if there is none."""
    status = getattr(getattr(error, "response", None), "status_code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def is_permanent(status: int) -> bool:
    """Whether a command with this exit status would fail again. A signal is minus its number, or 128 plus that."""
    return status not in (0, GOES_ON) and _signal(status) is None


def ended(what: str, status: int) -> str:
    """How a process, named by `what`, ended, in words. After SIGKILL also what to do."""
    number = _signal(status)
    if number is None or number not in list(signal.Signals):
        return f"{what} ended with exit status {status}"
    name = signal.Signals(number).name
    memory = "; if for want of memory, ask for more: launch.resources.mem_mb" if name == "SIGKILL" else ""
    return f"{what} was ended by {name}{memory}"


def _signal(status: int) -> int | None:
    """Number of the signal that an exit status tells of; None for no signal, such as 255, a shell's word for -1."""
    number = -status if status < 0 else status - 128
    return number if number in signal.valid_signals() else None
