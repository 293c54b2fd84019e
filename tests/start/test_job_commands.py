"""Commands of jobs: any path stays a single word, and an error shows little of them."""

from __future__ import annotations

import logging
import shlex
import subprocess
from pathlib import Path

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from reward_ablation.start.job_commands import shell_prefix, shorten_failed_commands

HOSTILE = 'a b/it\'s "$(touch PWNED)" `touch PWNED` {wildcards} \\ *'


def test_the_programs_of_the_environment_come_first_whatever_its_folder_is_called(tmp_path):
    prefix = shell_prefix(Path(HOSTILE)).format()  # as Snakemake formats it
    command = ["bash", "-c", f'{prefix} printf %s "$PATH"']
    path = subprocess.run(command, cwd=tmp_path, env={"PATH": "/bin:/usr/bin"}, capture_output=True, text=True)
    assert path.stdout == f"{HOSTILE}:/bin:/usr/bin", path.stderr
    assert not (tmp_path / "PWNED").exists()


def shown(**fields):
    record = logging.makeLogRecord(fields)
    assert shorten_failed_commands(record)
    return record


def test_of_a_failed_jobs_command_the_beginnings_of_long_arguments_are_shown():
    spec = '{"a": "it\'s ' + "x" * 4000 + '"}'
    command = f"exec python -m stage --spec {shlex.quote(spec)} --run-dir runs/a > log 2>&1"
    told = shown(event=LogEvent.JOB_ERROR, shellcmd=command).shellcmd
    assert told.startswith("exec python -m stage --spec {")
    assert told.endswith("characters; snakemake -p shows all) --run-dir runs/a > log 2>&1")
    assert len(told) < 300
    assert shown(event=LogEvent.SHELLCMD, shellcmd=command).shellcmd == command  # asked for with -p
    assert shown(event=LogEvent.JOB_ERROR, shellcmd="exec 'a b'").shellcmd == "exec 'a b'"
    told = shown(msg=f"CalledProcessError in file x, line 1:\nCommand '{command}' returned non-zero exit status 1.").msg
    assert told == "CalledProcessError in file x, line 1:\nThe command returned non-zero exit status 1."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Command 'a' died with <Signals.SIGKILL: 9>.", "The command died with <Signals.SIGKILL: 9>."),
        ("a Command '' returned non-zero exit status 1.", "a The command returned non-zero exit status 1."),
        # The command itself has the words of its end, and of its beginning.
        ("Command 'b' died with Command 'c' returned non-zero exit status 2.", "The command returned non-zero exit"),
        ("' died with Command 'a", "' died with Command 'a"),
        ("Command ' died with", "Command ' died with"),
        ("Command '" * 200_000, "Command '" * 200_000),  # minutes where the time grows as the square
    ],
)
def test_the_words_of_a_failed_command_are_left_out(text, told):
    assert shown(msg=f"CalledProcessError in x: {text}").msg.startswith(f"CalledProcessError in x: {told}")
