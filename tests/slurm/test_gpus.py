"""GPUs of a real Slurm job. Their numbers mean nothing outside the job, so that runs take them without a claim."""

from __future__ import annotations

import shlex
import sys

import pytest

from stand_in_gpus import Machine

#: Says which GPUs it got, and goes on once all of them are there.
CLAIM = """
import os, sys, time
from pathlib import Path
from reward_ablation.system.gpus import claim_gpus
gpus, here, all_of_them = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
locks = claim_gpus(gpus, "train")
print("got", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
(here / f"{os.environ['SLURM_JOB_ID']}-{os.getpid()}").touch()
deadline = time.monotonic() + 60
while len(list(here.iterdir())) < all_of_them:
    assert time.monotonic() < deadline
    time.sleep(0.1)
"""


@pytest.fixture
def claim(tmp_path):
    """A command that claims so many GPUs and ends when so many have claimed theirs."""
    (tmp_path / "there").mkdir()

    def command(gpus, all_of_them):
        return shlex.join([sys.executable, "-c", CLAIM, str(gpus), str(tmp_path / "there"), str(all_of_them)])

    return command


def got(log):
    return sorted(line.removeprefix("got ") for line in log.splitlines() if line.startswith("got "))


def test_two_jobs_have_the_same_numbers_and_do_not_wait_for_each_other(cluster, claim):
    jobs = [cluster.submit(claim(2, 2), "--nodes=1", "--gpus=2") for _ in range(2)]
    for job in jobs:
        assert cluster.wait_for(job) == "COMPLETED", cluster.log(job)
        assert got(cluster.log(job)) == ["0,1"]
        assert "waiting" not in cluster.log(job)


def test_runs_side_by_side_in_one_job_have_each_its_own(cluster, claim):
    """As a study that is started in an allocation."""
    three = f"for i in 1 2 3; do {claim(1, 2)} & done; wait"
    job = cluster.submit(three, "--nodes=1", "--gpus=2")
    assert cluster.wait_for(job) == "COMPLETED", cluster.log(job)
    names = got(cluster.log(job))
    assert len(names) == 3  # two at once, the third when one of them was done
    assert set(names) == {"0", "1"}
    for name in ("0", "1"):
        Machine.lock(f"slurm-{job}-{name}").unlink()


def test_more_than_slurm_gave_is_one_line(cluster, claim):
    job = cluster.submit(claim(2, 1), "--nodes=1", "--gpus=1")
    assert cluster.wait_for(job) == "FAILED"
    assert "launch.gpus: a run takes 2 GPUs and this Slurm job was given 1 GPU (CUDA_VISIBLE_DEVICES=" in (
        cluster.log(job)
    )
