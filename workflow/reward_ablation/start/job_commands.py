"""Command lines: the one of Snakemake that the user types, and those of jobs."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent

from reward_ablation.system.errors import StudyError

#: The option that takes all words up to the next option as config files, and the shortest beginning of its name that
#: Snakemake does not take for `--config`.
CONFIG_OPTION = "--configfiles"
SHORTEST_CONFIG_OPTION = "--configf"
CONFIG_ENDINGS = (".yaml", ".yml", ".json")

#: How Python words a command that has failed.
_COMMAND = "Command '"
_ENDS = ("' returned non-zero exit status", "' died with")

#: Characters of one argument that are shown of the command of a failed job.
SHOWN = 80


def shell_prefix(programs: Path) -> str:
    """What each shell command of a rule begins with: first come the programs of a folder.

    Snakemake's `shell.prefix` takes braces for fields.
    """
    first = shlex.quote(str(programs)).replace("{", "{{").replace("}", "}}")
    return f'set -euo pipefail; export PATH={first}:"$PATH"; '


def shorten_failed_commands(record: logging.LogRecord) -> bool:
    """Filter for Snakemake's logger: a failed job's command is shown once, not twice, and its long arguments are cut.

    A run's spec has thousands of characters, and the error stands below them.
    """
    fields = vars(record)
    if fields.get("event") == LogEvent.JOB_ERROR and fields.get("shellcmd"):
        fields["shellcmd"] = shortened(fields["shellcmd"])
    elif isinstance(record.msg, str) and "CalledProcessError in " in record.msg:
        record.msg = _without_command(record.msg)
    return True


def _without_command(text: str) -> str:
    """A text without the words of the command in it, in a time linear in its length."""
    start, end = text.find(_COMMAND), max(map(text.rfind, _ENDS))
    if start < 0 or end < start + len(_COMMAND):
        return text
    return f"{text[:start]}The command{text[end + 1 :]}"


def shortened(command: str) -> str:
    """A command with the beginning of each long argument."""
    words = _words(command)
    if all(len(word) <= 2 * SHOWN for word in words):  # or the command is not written for this shell
        return command
    return " ".join(
        word if len(word) <= 2 * SHOWN else f"{word[:SHOWN]}... ({len(word)} characters; snakemake -p shows all)"
        for word in words
    )


def check_config_files(words: Sequence[str]) -> None:
    """Refuse a file that is not there, and a target behind `--configfile`: Snakemake reads it as one more config file.

    `words` is Snakemake's command line.
    """
    for first, *files in _with_values(words):
        option, equals, file = first.partition("=")
        if not (option.startswith(SHORTEST_CONFIG_OPTION) and CONFIG_OPTION.startswith(option)):
            continue
        files = [file] if equals else files
        for number, file in enumerate(files):
            if number and not file.endswith(CONFIG_ENDINGS):
                raise StudyError(
                    f"{file}: is no config file, and {option} takes all words up to the next option; type: "
                    f"snakemake {shlex.join(files[number:])} {option} {shlex.join(files[:number])}"
                )
            if not Path(file).exists() or Path(file).is_dir():
                raise StudyError(f"{option} {file}: no such file; name a config, such as config/demo.yaml")


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Each option with the words behind it."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("-"):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
    return groups


def _words(command: str) -> list[str]:
    """A command's words as a shell reads them; none where the quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError:
        return []
