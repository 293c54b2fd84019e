from pathlib import Path

import pytest

from reward_ablation.cluster.submission import (
    Reminder,
    limit_text,
    may_come_later,
    number_in,
    output_pattern,
    submission_limit,
)
from reward_ablation.system.errors import StudyError

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
        ("job submit limit", "; if Slurm has none of your jobs, the job may ask for more than a single job may have"),
    ],
)
def test_what_is_told_at_a_limit(limit, hint):
    counts = "100 of 1,500 jobs are in, 37 done, 1,363 to go; they are submitted as others end"
    assert limit_text(limit, 100, 37, 1363) == f"Slurm takes no more jobs now ({limit}): {counts}{hint}"


def test_another_failure_is_no_limit():
    assert submission_limit("sbatch: Batch job submission failed: Invalid account") is None


def test_slurm_puts_nothing_of_its_own_into_a_folders_name():
    assert output_pattern(Path("/home/100%j/a %%x")) == "/home/100%%j/a %%%%x/%j.log"


def test_a_folder_that_slurm_cannot_write_a_log_into_is_refused():
    with pytest.raises(StudyError, match=r"^/home/back\\slash: Slurm cannot write logs into .*; start the study"):
        output_pattern(Path("/home/back\\slash"))


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
