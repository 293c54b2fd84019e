"""Exit statuses of the workflow's commands: they say whether the same command, started again, can do better.

A command ends with `GOES_ON` where it was stopped, or where it met an error that may pass by itself. A signal may
end a command, too. Every other status is an error that stays until the user mends it, so nothing is started again.
"""

from __future__ import annotations

import errno
import os
import signal

#: The command was stopped or met an error that may pass; started again, the command goes on from what is done.
GOES_ON = os.EX_TEMPFAIL

#: Errors of file servers, networks and devices that come and go.
PASSING = {
    errno.EIO,
    errno.ESTALE,
    errno.EREMOTEIO,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}

#: Errors of other packages that come and go, by name: this module imports none of these packages.
PASSING_CLASSES = {
    "aiohttp.client_exceptions.ClientConnectionError",
    "httpx.TransportError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "torch.AcceleratorError",
    "torch.distributed.DistError",
}


def may_pass(error: BaseException | None) -> bool:
    """Whether an error, or what directly caused the error, may be gone when the command is started again."""
    while error is not None:
        if isinstance(error, ConnectionError | TimeoutError):
            return True
        if isinstance(error, OSError) and error.errno in PASSING:
            return True
        names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
        if names & PASSING_CLASSES and "device-side assert" not in str(error):  # an index out of range comes again
            return True
        error = error.__cause__
    return False


def is_permanent(status: int) -> bool:
    """Whether a command that ended with this status would end so again.

    Parameters
    ----------
    status : int
        As `subprocess` has it (minus the number of a signal) or as a shell has it (128 and that number).
    """
    number = -status if status < 0 else status - 128
    return status not in (0, GOES_ON) and number not in signal.valid_signals()
