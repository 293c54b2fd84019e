"""Commands of Slurm: what they are not told, what their failures say, and which failures may pass."""

import shlex

import pytest

from reward_ablation.cluster.command import SlurmError, run_slurm_command

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
FAILED = "Batch job submission failed"


def test_what_a_user_has_set_for_other_submissions_and_listings_is_not_handed_on(monkeypatch):
    for name in ("SBATCH_ARRAY_INX", "SLURM_CLUSTERS", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "x")
    found = run_slurm_command("env").splitlines()
    assert not [line for line in found if line.startswith(("SBATCH_", "SLURM_CLUSTERS", "SQUEUE_"))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["sbatch: unrecognized option '--nonsense'", 'Try "sbatch --help" for more information'],
            "sbatch: unrecognized option '--nonsense'",
        ),
        # Below a banner, the limit by name.
        (
            ["*** welcome ***", "sbatch: error: AssocMaxSubmitJobLimit", f"sbatch: error: {FAILED}: {POLICY}"],
            f"sbatch: AssocMaxSubmitJobLimit: {FAILED}: {POLICY}",
        ),
        ([], "sbatch: exit status 1"),
    ],
)
def test_why_a_command_failed_is_one_line(tmp_path, monkeypatch, lines, message):
    program, said = tmp_path / "sbatch", "\n".join(lines)
    program.write_text(f"#!/bin/sh\necho {shlex.quote(said)} >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError) as error:
        run_slurm_command("sbatch")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("message", "may_pass", "job_limit"),
    [
        (f"{FAILED}: Socket timed out on send/recv operation", True, None),
        (f"AssocGrpSubmitJobsLimit: {FAILED}: {POLICY}", True, "AssocGrpSubmitJobsLimit"),
        (f"MaxSubmitJobsPerAccount: {FAILED}: {POLICY}", True, "MaxSubmitJobsPerAccount"),
        (f"{FAILED}: {POLICY}", True, "job submit limit"),  # of a Slurm that names no limit
        # Of the job's size, in the same words: it is never taken.
        (f"QOSMaxWallDurationPerJobLimit: allocation failure: {POLICY}", False, None),
        (f"MaxTRESPerAccount: {FAILED}: {POLICY}", False, None),
        (f"QOSMinGRES: {FAILED}: {POLICY}", False, None),
        (f"{FAILED}: Invalid account or account/partition combination specified", False, None),
    ],
)
def test_which_failures_may_pass_and_which_are_a_limit_on_the_number_of_jobs(message, may_pass, job_limit):
    error = SlurmError(message)
    assert (error.may_pass, error.job_limit) == (may_pass, job_limit)
