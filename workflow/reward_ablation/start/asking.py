"""Ask a module in a process of its own, for checks that import torch or read a stranger's file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reward_ablation.system.errors import ERROR, StudyError


def ask(module: str, lines: Iterable[str], folder: Path) -> list[Any]:
    """Start `python -m module` with these lines on stdin, and return the JSON objects that it prints, one a line.

    Paths in the lines start at `folder`. Raises StudyError with the last line on stderr if the process fails.
    """
    command = [sys.executable, "-m", module]
    result = subprocess.run(command, input="\n".join(lines), text=True, capture_output=True, cwd=folder)
    if result.returncode:
        last_line = (result.stderr.strip().splitlines() or [f"{module}: the check died"])[-1]
        raise StudyError(last_line.removeprefix(ERROR))
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
