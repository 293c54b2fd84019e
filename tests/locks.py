"""Whether a lock is held. The test takes the lock to find out."""

from __future__ import annotations

import time
from pathlib import Path

from reward_ablation.system.locks import Held, take


def is_free(path: Path) -> bool:
    """Whether nobody holds a lock."""
    try:
        take(path).release()
    except Held:
        return False
    return True


def gets_free(path: Path, seconds: float = 10) -> bool:
    """Whether a lock is free soon, long before any process of a test ends by itself."""
    deadline = time.monotonic() + seconds
    while not is_free(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
