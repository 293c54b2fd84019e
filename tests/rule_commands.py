"""Shell commands of the workflow's rules, as they are written and as bash reads them."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

RULES = Path(__file__).parents[1] / "workflow" / "rules"

#: Bash prints the words of each command, and starts nothing.
WORDS_ONLY = "exec() { \"$@\"; }; python() { printf '%s\\0' \"$@\" $'\\x1e'; }\n"


def shell_commands() -> dict[str, str]:
    """The shell command of each rule, less what sends its output to the log, by file and line."""
    commands = {}
    for file in sorted(RULES.glob("*.smk")):
        for found in re.finditer(r"^ *shell:\n((?: +['\"].*\n?)+)", file.read_text(), re.MULTILINE):
            command = ast.literal_eval(f"({found[1]})")
            assert command.endswith(" > {log:q} 2>&1")
            commands[f"{file.name}:{found.start()}"] = command.removesuffix(" > {log:q} 2>&1")
    return commands


def words_in_bash(commands: list[str], folder: Path) -> list[list[str]]:
    """What each command's program would be given, by a bash that works in a folder."""
    script = WORDS_ONLY + "\n".join(commands) + "\n"
    result = subprocess.run(["bash", "-euo", "pipefail"], input=script.encode(), cwd=folder, capture_output=True)
    assert result.returncode == 0, result.stderr.decode()
    return [text.split("\0")[:-1] for text in result.stdout.decode().split("\x1e\0")[:-1]]
