"""The shell commands of jobs: their beginning, and what a start says of those that failed.

The Snakefile sets these in Snakemake: the beginning of each rule's command, two filters of Snakemake's log, and what
Ctrl-C does. The Slurm executor and `workflow/preview.smk` begin their commands in the same way.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from reward_ablation.start.plan import first_lines
from reward_ablation.start.signs import read_log_end
from reward_ablation.system.errors import ERROR

#: The words before and after the command in Python's message on a failed command.
_COMMAND = "Command '"
_ENDS = ("' returned non-zero exit status", "' died with")
#: How many failed jobs are told when a start ends, a free choice.
MOST = 5
#: How many characters of an argument that is longer than twice this are shown, in the command of a failed job.
SHOWN = 80


def shell_prefix(programs: Path) -> str:
    """The beginning of every shell command: `programs` first in PATH. Braces are fields for Snakemake."""
    folder = shlex.quote(str(programs)).replace("{", "{{").replace("}", "}}")
    return f'set -euo pipefail; export PATH={folder}:"$PATH"; '


def shorten_failed_commands(record: logging.LogRecord) -> bool:
    """Filter for Snakemake's logger: a failed job's command once, with long arguments cut, such as a run's spec."""
    fields = vars(record)
    if fields.get("event") == LogEvent.JOB_ERROR and fields.get("shellcmd"):
        fields["shellcmd"] = shortened(fields["shellcmd"])
    elif isinstance(record.msg, str) and "CalledProcessError in " in record.msg:
        record.msg = _without_command(record.msg)
    return True


def end_at_second_interrupt() -> None:
    """Let the first Ctrl-C stop the jobs in order, and the second this process; to be called in the main thread."""
    stopped = b"stopped; the same command goes on from the last checkpoints\n"

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, second)
        atexit.register(os.write, sys.stderr.fileno(), stopped)
        raise KeyboardInterrupt

    def second(number: int, frame: Any) -> None:
        os.write(sys.stderr.fileno(), b"\n" + stopped)
        os._exit(128 + number)

    signal.signal(signal.SIGINT, first)


class FailedJobs:
    """Filter for Snakemake's logger: notes the logs of failed jobs, and tells their errors when the process ends."""

    def __init__(self) -> None:
        self.logs: dict[str, None] = {}
        atexit.register(self.tell)

    def __call__(self, record: logging.LogRecord) -> bool:
        fields = vars(record)
        if fields.get("event") == LogEvent.JOB_ERROR:
            self.logs.update(dict.fromkeys(map(str, list(fields.get("log") or [])[:1])))
        return True

    def tell(self) -> None:
        """Print one line for each of the first failed jobs to stderr: its error, and its log."""
        ends = {log: read_log_end(Path(log)) for log in self.logs}
        errors = {log: end.error.removeprefix(ERROR) for log, end in ends.items() if end and end.error}
        lines = [f"{ERROR}{error}; log: {log}" for log, error in errors.items()]
        for line in first_lines(lines, MOST, "more failed jobs; `reward-ablation status` names them"):
            print(line, file=sys.stderr)


def _without_command(text: str) -> str:
    """The text without the words of the command, in a time linear in the text's length."""
    start, end = text.find(_COMMAND), max(map(text.rfind, _ENDS))
    if start < 0 or end < start + len(_COMMAND):
        return text
    return f"{text[:start]}The command{text[end + 1 :]}"


def shortened(command: str) -> str:
    """A command whose long arguments are cut to their beginning."""
    try:
        words = shlex.split(command)
    except ValueError:  # its quotes do not match
        return command
    if all(len(word) <= 2 * SHOWN for word in words):
        return command
    return " ".join(
        word if len(word) <= 2 * SHOWN else f"{word[:SHOWN]}... ({len(word)} characters; snakemake -p shows all)"
        for word in words
    )
