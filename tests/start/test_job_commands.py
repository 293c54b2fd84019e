"""Command lines of Snakemake: any path stays a single word, and a target is not a config file."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from reward_ablation.start.config_files import check_config_files
from reward_ablation.start.job_commands import shell_prefix, shorten_failed_commands
from reward_ablation.system.errors import StudyError

HOSTILE = 'a b/it\'s "$(touch PWNED)" `touch PWNED` {wildcards} \\ *'


def test_the_programs_of_the_environment_come_first_whatever_its_folder_is_called(tmp_path):
    prefix = shell_prefix(Path(HOSTILE)).format()  # as Snakemake formats it
    command = ["bash", "-c", f'{prefix} printf %s "$PATH"']
    path = subprocess.run(command, cwd=tmp_path, env={"PATH": "/bin:/usr/bin"}, capture_output=True, text=True)
    assert path.stdout == f"{HOSTILE}:/bin:/usr/bin", path.stderr
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["-c", "2", "--configfiles", "my.yaml", "more.yaml", "all.pdf"],
            "all.pdf: is not a config file, but --configfiles takes all words up to the next option as files; type: "
            "snakemake all.pdf --configfiles my.yaml m",
        ),
        (["--configfile=mine.yaml", "plan"], "--configfile mine.yaml: no such file; name a config, such as "),
        (["--configf", "my.yaml", "plan"], "type: snakemake plan --configf my.yaml"),  # Snakemake takes beginnings
    ],
)
def test_a_target_behind_configfile_is_told_where_it_belongs(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("my.yaml", "more.yaml", "all.pdf"):  # a figure that an earlier start has made is no config either
        (tmp_path / file).write_text("")
    with pytest.raises(StudyError) as error:
        check_config_files(["/bin/snakemake", *words])
    assert told in str(error.value)
    os.mkfifo(tmp_path / "pipe.yaml")  # left for Snakemake to read
    for fine in (["plan", "--configfile", "my.yaml", "more.yaml", "-n"], ["--configfile", "pipe.yaml"]):
        check_config_files(["snakemake", *fine])


def shown(**fields):
    record = logging.makeLogRecord(fields)
    assert shorten_failed_commands(record)
    return record


def test_a_key_that_the_command_line_or_a_profile_gives_twice_is_refused(tmp_path):
    (tmp_path / "config.yaml").write_text("cores: 1\nconfig:\n  seeds: 1\n  seeds: 2\n")
    in_profile = f"{tmp_path}/config.yaml: line 4: key 'seeds' occurs twice, first in line 3"
    for words, line in (
        (["--config", "name=x", "a={k: 1, k: 2}"], "--config a: line 1: key 'k' occurs twice"),
        (["--config=a={k: 1, k: 2}"], "--config a: line 1: key 'k' occurs twice"),
        (["-Cseeds=[0]", "--config", "seeds=[1]"], "--config seeds: is given twice"),
        (["--profile", str(tmp_path)], in_profile),
        ([f"--workflow-profile={tmp_path}"], in_profile),
    ):
        with pytest.raises(StudyError, match=f"^{line}"):
            check_config_files(["snakemake", "plan", *words])


def test_of_a_failed_jobs_command_the_beginnings_of_long_arguments_are_shown():
    spec = '{"a": "it\'s ' + "x" * 4000 + '"}'
    command = f"exec python -m stage --spec {shlex.quote(spec)} --run-dir runs/a > log 2>&1"
    told = shown(event=LogEvent.JOB_ERROR, shellcmd=command).shellcmd
    assert told.startswith("exec python -m stage --spec {")
    assert told.endswith("characters; snakemake -p shows all) --run-dir runs/a > log 2>&1")
    assert len(told) < 300
    assert shown(event=LogEvent.SHELLCMD, shellcmd=command).shellcmd == command  # asked for with -p
    assert shown(event=LogEvent.JOB_ERROR, shellcmd="exec 'a b'").shellcmd == "exec 'a b'"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Command 'a' died with <Signals.SIGKILL: 9>.", "The command died with <Signals.SIGKILL: 9>."),
        # The command itself has the words of its end, and of its beginning.
        ("Command 'b' died with Command 'c' returned non-zero exit status 2.", "The command returned non-zero exit"),
        ("' died with Command 'a", "' died with Command 'a"),
        ("Command '" * 200_000, "Command '" * 200_000),  # minutes where the time grows as the square
    ],
)
def test_the_words_of_a_failed_command_are_left_out(text, told):
    assert shown(msg=f"CalledProcessError in x: {text}").msg.startswith(f"CalledProcessError in x: {told}")
