"""Commands of Slurm: what they are not told, what their failures say, and which failures may pass."""

import pytest

from reward_ablation.cluster.command import SlurmError, run_slurm_command

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
FAILED = "Batch job submission failed"


def test_what_a_user_has_set_for_other_submissions_and_listings_is_not_handed_on(monkeypatch):
    for name in ("SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_JOB_NAME", "SLURM_CLUSTERS", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "x")
    found = run_slurm_command("env").splitlines()
    assert not [line for line in found if line.startswith(("SBATCH_", "SLURM_CLUSTERS", "SQUEUE_"))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        # As Slurm 22.05 writes them.
        (
            ["sbatch: error: AssocMaxSubmitJobLimit", f"sbatch: error: {FAILED}: {POLICY}"],
            f"sbatch: AssocMaxSubmitJobLimit: {FAILED}: {POLICY}",
        ),
        (
            ["sbatch: unrecognized option '--nonsense'", 'Try "sbatch --help" for more information'],
            "sbatch: unrecognized option '--nonsense'",
        ),
        # A site's own check of submissions, and a banner.
        (
            ["*** welcome ***", "sbatch: error: name a project", f"sbatch: error: {FAILED}: no"],
            f"sbatch: name a project: {FAILED}: no",
        ),
        ([], "sbatch: exit status 1"),
    ],
)
def test_why_a_command_failed_is_one_line(tmp_path, monkeypatch, lines, message):
    program = tmp_path / "sbatch"
    (tmp_path / "said").write_text("".join(f"{line}\n" for line in lines))
    program.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line" >&2; done < {tmp_path}/said\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError) as error:
        run_slurm_command("sbatch")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("message", "may_pass", "job_limit"),
    [
        (f"{FAILED}: Socket timed out on send/recv operation", True, None),
        (f"{FAILED}: Unable to contact slurm controller (connect failure)", True, None),
        ("no answer within 60 s", True, None),
        (f"AssocGrpSubmitJobsLimit: {FAILED}: {POLICY}", True, "AssocGrpSubmitJobsLimit"),
        (f"MaxSubmitJobsPerAccount: {FAILED}: {POLICY}", True, "MaxSubmitJobsPerAccount"),
        (f"{FAILED}: {POLICY}", True, "job submit limit"),  # of a Slurm that names no limit
        # Of the job's size, in the same words: it is never taken.
        (f"QOSMaxWallDurationPerJobLimit: allocation failure: {POLICY}", False, None),
        (f"MaxTRESPerAccount: {FAILED}: {POLICY}", False, None),
        (f"QOSMinGRES: {FAILED}: {POLICY}", False, None),
        (f"QOSMinCpuNotSatisfied: allocation failure: {POLICY}", False, None),
        (f"AssocMaxGRESPerJob: {FAILED}: {POLICY}", False, None),
        (f"{FAILED}: Invalid account or account/partition combination specified", False, None),
        ("unrecognized option '--nonsense'", False, None),
    ],
)
def test_which_failures_may_pass_and_which_are_a_limit_on_the_number_of_jobs(message, may_pass, job_limit):
    error = SlurmError(f"sbatch: {message}")
    assert (error.may_pass, error.job_limit) == (may_pass, job_limit)
