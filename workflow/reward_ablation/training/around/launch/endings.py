"""How processes of a run ended, in words."""

from __future__ import annotations

import signal


def ended(what: str, status: int) -> str:
    """How something ended, and what to do where that tells.

    Parameters
    ----------
    what : str
    status : int
        As Popen has it, or as a guardian passes it on: minus the number of the signal, or 128 and that number. Some
        such numbers are no signals: -1 is passed to the system as 255.
    """
    number = -status if status < 0 else status - 128
    if number not in list(signal.Signals):
        return f"{what} ended with exit status {status}"
    name = signal.Signals(number).name
    memory = "; if for want of memory, ask for more: launch.resources.mem_mb" if name == "SIGKILL" else ""
    return f"{what} was ended by {name}{memory}"
