"""The shell commands of jobs: their beginning, and how a failed one is shown."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

#: The words before and after the command in Python's message on a failed command.
_COMMAND = "Command '"
_ENDS = ("' returned non-zero exit status", "' died with")

#: How many characters of a long argument are shown, in the command of a failed job.
SHOWN = 80


def shell_prefix(programs: Path) -> str:
    """The beginning of every shell command of a rule. It puts the folder `programs` first in PATH.

    Snakemake's `shell.prefix` takes braces for fields, so braces in the path are doubled.
    """
    folder = shlex.quote(str(programs)).replace("{", "{{").replace("}", "}}")
    return f'set -euo pipefail; export PATH={folder}:"$PATH"; '


def shorten_failed_commands(record: logging.LogRecord) -> bool:
    """Filter for Snakemake's logger: shows a failed job's command once instead of twice, and cuts its long arguments.

    A run's spec has thousands of characters, and the error is printed below them.
    """
    fields = vars(record)
    if fields.get("event") == LogEvent.JOB_ERROR and fields.get("shellcmd"):
        fields["shellcmd"] = shortened(fields["shellcmd"])
    elif isinstance(record.msg, str) and "CalledProcessError in " in record.msg:
        record.msg = _without_command(record.msg)
    return True


def _without_command(text: str) -> str:
    """The text without the words of the command, in a time linear in the text's length."""
    start, end = text.find(_COMMAND), max(map(text.rfind, _ENDS))
    if start < 0 or end < start + len(_COMMAND):
        return text
    return f"{text[:start]}The command{text[end + 1 :]}"


def shortened(command: str) -> str:
    """A command whose long arguments are cut to their beginning."""
    words = _words(command)
    if all(len(word) <= 2 * SHOWN for word in words):  # also where the command cannot be split into words
        return command
    return " ".join(
        word if len(word) <= 2 * SHOWN else f"{word[:SHOWN]}... ({len(word)} characters; snakemake -p shows all)"
        for word in words
    )


def _words(command: str) -> list[str]:
    """A command's words as a shell reads them; empty where the quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return []
