"""How processes of a run ended, in words."""

from __future__ import annotations

import signal


def ended_by(what: str, number: int) -> str:
    """That a signal has ended something, and what to do where it tells."""
    name = signal.Signals(number).name
    memory = "; if for want of memory, ask for more: launch.resources.mem_mb" if name == "SIGKILL" else ""
    return f"{what} was ended by {name}{memory}"
