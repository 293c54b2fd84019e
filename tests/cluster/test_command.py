import pytest

from reward_ablation.cluster.command import SlurmError, run_slurm_command

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


def test_what_a_user_has_set_for_other_submissions_and_listings_is_not_handed_on(monkeypatch):
    for name in ("SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_JOB_NAME", "SLURM_CLUSTERS", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "x")
    assert not [
        name
        for name in run_slurm_command("env").splitlines()
        if name.startswith(("SBATCH_", "SLURM_CLUSTERS", "SQUEUE_"))
    ]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        # As Slurm 22.05 writes them.
        (
            ["sbatch: error: AssocMaxSubmitJobLimit", f"sbatch: error: Batch job submission failed: {POLICY}"],
            f"sbatch: AssocMaxSubmitJobLimit: Batch job submission failed: {POLICY}",
        ),
        (
            ["sbatch: error: QOSMaxCpuPerJobLimit", f"allocation failure: {POLICY}"],
            f"sbatch: QOSMaxCpuPerJobLimit: allocation failure: {POLICY}",
        ),
        (
            ["sbatch: unrecognized option '--nonsense'", 'Try "sbatch --help" for more information'],
            "sbatch: unrecognized option '--nonsense'",
        ),
        # A site's own check of submissions, and a banner.
        (
            ["*** welcome ***", "sbatch: error: name a project", "sbatch: error: Batch job submission failed: no"],
            "sbatch: name a project: Batch job submission failed: no",
        ),
        ([], "sbatch: exit status 1"),
    ],
)
def test_why_a_command_failed_is_one_line(tmp_path, monkeypatch, lines, told):
    program = tmp_path / "sbatch"
    (tmp_path / "said").write_text("".join(f"{line}\n" for line in lines))
    program.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line" >&2; done < {tmp_path}/said\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError) as error:
        run_slurm_command("sbatch")
    assert str(error.value) == told
