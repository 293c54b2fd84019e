"""The folder in which the user typed the command, for jobs of `preview`, which work in a folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "REWARD_ABLATION_STARTED_IN"


def started_in() -> Path:
    """The folder from which the user's own files are named: the working folder, but for jobs of `preview`."""
    return Path(os.environ.get(VARIABLE, ""))
