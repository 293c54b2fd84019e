import os
import subprocess
import sys
from pathlib import Path

import pytest

from reward_ablation.cluster.submission import (
    Reminder,
    batch_script,
    may_come_later,
    number_in,
    output_pattern,
    submission_limit,
    told_of_limit,
    verdict,
)
from reward_ablation.system.exit_status import GOES_ON

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("12\n", "12"),
        ("12;cluster\n", "12"),
        ("*** Your project has 1200 GPU hours left ***\n7\n", "7"),
        ("7\nsubmitted, thank you\n", "7"),
        ("sbatch 22.05.8\n", None),
        ("", None),
    ],
)
def test_the_number_is_found_among_what_a_site_adds(answer, number):
    assert number_in(answer) == number


@pytest.mark.parametrize(
    ("error", "later"),
    [
        ("sbatch: Batch job submission failed: Socket timed out on send/recv operation", True),
        ("sbatch: Batch job submission failed: Unable to contact slurm controller (connect failure)", True),
        ("sbatch: Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("sbatch: no answer within 60 s", True),
        (POLICY, True),  # of a Slurm that names no limit
        (f"sbatch: AssocMaxSubmitJobLimit: Batch job submission failed: {POLICY}", True),
        (f"sbatch: QOSMaxWallDurationPerJobLimit: allocation failure: {POLICY}", False),  # the same words
        ("sbatch: Batch job submission failed: Invalid account or account/partition combination specified", False),
        ("sbatch: unrecognized option '--nonsense'", False),
    ],
)
def test_what_is_worth_another_submission(error, later):
    assert may_come_later(error) == later


@pytest.mark.parametrize(
    ("named", "limit"),
    [
        ("AssocMaxSubmitJobLimit: ", "AssocMaxSubmitJobLimit"),
        ("AssocGrpSubmitJobsLimit: ", "AssocGrpSubmitJobsLimit"),
        ("QOSMaxSubmitJobPerUserLimit: ", "QOSMaxSubmitJobPerUserLimit"),
        ("MaxSubmitJobsPerAccount: ", "MaxSubmitJobsPerAccount"),
        ("", "job submit limit"),
        ("QOSMaxCpuPerJobLimit: ", None),  # of the job's size: it is never taken
        ("MaxTRESPerAccount: ", None),
    ],
)
def test_the_limit_on_the_number_of_jobs(named, limit):
    assert submission_limit(f"sbatch: {named}Batch job submission failed: {POLICY}") == limit


@pytest.mark.parametrize(
    ("limit", "hint"),
    [
        ("AssocMaxSubmitJobLimit", ""),
        ("job submit limit", "; if none of your jobs is there, the job may ask for more than one job may have"),
    ],
)
def test_what_is_told_at_a_limit(limit, hint):
    waits = "9 submissions wait here, and are made as other jobs end"
    assert told_of_limit(limit, 9) == f"Slurm takes no more jobs now ({limit}): {waits}{hint}"


def test_another_failure_is_no_limit():
    assert submission_limit("sbatch: Batch job submission failed: Invalid account") is None


@pytest.mark.parametrize("folder", ["logs", 'a b/it\'s "$(touch PWNED)" `touch PWNED` $HOME \\ *'])
@pytest.mark.parametrize(
    ("snakemake", "command", "left"),
    [
        (0, None, 0),
        (1, 3, 3),  # the rule's command has failed
        (1, -9, 137),  # a signal has ended the rule's command
        (1, None, GOES_ON),  # Snakemake itself has failed
        (137, None, GOES_ON),
    ],
)
def test_a_job_leaves_the_exit_status_of_its_command(tmp_path, folder, snakemake, command, left):
    verdicts = tmp_path / folder
    verdicts.mkdir(parents=True)
    (verdicts / "7.status").write_text("3\n")  # of the same job before it was requeued
    inner = f"from reward_ablation.cluster.submission import leave_status; leave_status({command})"
    leave = f'{sys.executable} -c "{inner}"; ' if command is not None else ""
    script = batch_script(f"({leave}exit {snakemake})", verdicts)
    environment = {**os.environ, "SLURM_JOB_ID": "7"}
    result = subprocess.run(["sh"], input=script, text=True, env=environment, cwd=tmp_path)
    assert result.returncode == left
    assert verdict(verdicts, "7") == left
    assert verdict(verdicts, "8") is None
    assert not list(tmp_path.rglob("PWNED"))


def test_slurm_puts_nothing_of_its_own_into_a_folders_name():
    assert output_pattern(Path("/home/100%j/a %%x")) == "/home/100%%j/a %%%%x/%j.log"


def test_a_message_comes_once_and_again_after_a_while():
    times = iter([0.0, 20.0, 300.0, 301.0, 320.0])
    reminder = Reminder(300, lambda: next(times))
    assert [reminder.due() for _ in range(5)] == [True, False, False, True, False]


def test_what_begins_anew_is_told_at_once():
    reminder = Reminder(300, lambda: 0.0)
    assert reminder.due()
    assert not reminder.due()
    reminder.forget()
    assert reminder.due()
