import subprocess
from pathlib import Path

import pytest

from reward_ablation.cluster.submission import batch_script, may_come_later, number_in, output_pattern, verdict


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
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", True),
        ("sbatch: Batch job submission failed: Invalid account or account/partition combination specified", False),
        ("sbatch: unrecognized option '--nonsense'", False),
    ],
)
def test_what_is_worth_another_submission(error, later):
    assert may_come_later(error) == later


@pytest.mark.parametrize("folder", ["logs", 'a b/it\'s "$(touch PWNED)" `touch PWNED` $HOME \\ *'])
@pytest.mark.parametrize("status", [0, 3])
def test_a_job_leaves_its_exit_status(tmp_path, status, folder):
    verdicts = tmp_path / folder
    verdicts.mkdir(parents=True)
    script = batch_script(f"(exit {status})", verdicts)
    result = subprocess.run(["sh"], input=script, text=True, env={"SLURM_JOB_ID": "7"}, cwd=tmp_path)
    assert result.returncode == status
    assert verdict(verdicts, "7") == status
    assert verdict(verdicts, "8") is None
    assert not list(tmp_path.rglob("PWNED"))


def test_slurm_puts_nothing_of_its_own_into_a_folders_name():
    assert output_pattern(Path("/home/100%j/a %%x")) == "/home/100%%j/a %%%%x/%j.log"
