"""Reading Slurm's accounting, from lines that a Slurm 22.05 with slurmdbd wrote."""

import os
from pathlib import Path

import pytest

from reward_ablation.cluster.command import SlurmError
from reward_ablation.report.cost.accounting import AT_ONCE, Allocation, allocations

#: A job that ended, one that was put back into the queue while it ran, one that was cancelled before it began, one on a
#: cluster that counts GPUs of a type alone, and one on a cluster that counts none.
BEGAN = 1700000000.0
ANSWER = """\
1|COMPLETED|3|billing=3,cpu=3,gres/gpu:h200=2,gres/gpu=2,mem=3000M,node=1|1700000000|s-1.train.a_seed0
4|REQUEUED|5|billing=2,cpu=2,gres/gpu:h200=2,gres/gpu=2,mem=2000M,node=2|1700000000|s-1.train.b_seed0
4|COMPLETED|8|billing=2,cpu=2,gres/gpu:h200=2,gres/gpu=2,mem=2000M,node=2|1700000000|s-1.train.b_seed0
3|CANCELLED by 0|0||None|s-1.train.c_seed0
6|TIMEOUT|60|billing=8,cpu=8,gres/gpu:h200=4,mem=8000M,node=1|1700000000|s-1.train.d_seed0
5|CANCELLED by 0|5|billing=1,cpu=1,mem=1000M,node=1|1700000000|s-1.train.e_seed0
"""


@pytest.fixture
def sacct(tmp_path, monkeypatch) -> Path:
    """A `sacct` that prints the file `answer`, and writes its arguments to the file `asked`."""
    program = tmp_path / "sacct"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/answer\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "answer").write_text(ANSWER)
    return program


def test_each_time_that_a_job_ran_counts(sacct):
    assert allocations(["1", "3", "4", "5", "6"]) == [
        Allocation("1", "s-1.train.a_seed0", "COMPLETED", 3, 3, 2, BEGAN),
        Allocation("4", "s-1.train.b_seed0", "REQUEUED", 5, 2, 2, BEGAN),
        Allocation("4", "s-1.train.b_seed0", "COMPLETED", 8, 2, 2, BEGAN),
        Allocation("3", "s-1.train.c_seed0", "CANCELLED by 0", 0, 0, None),
        Allocation("6", "s-1.train.d_seed0", "TIMEOUT", 60, 8, 4, BEGAN),
        Allocation("5", "s-1.train.e_seed0", "CANCELLED by 0", 5, 1, None, BEGAN),
    ]


def test_many_jobs_are_asked_for_in_turns(sacct, tmp_path):
    allocations([str(job) for job in range(2 * AT_ONCE + 1)] * 2, cluster="one")
    asked = (tmp_path / "asked").read_text().splitlines()
    jobs = [line.split("--jobs=")[1].split(",") for line in asked]
    assert [len(ids) for ids in jobs] == [AT_ONCE, AT_ONCE, 1]
    assert len({job for ids in jobs for job in ids}) == 2 * AT_ONCE + 1
    assert all("--clusters=one" in line for line in asked)


def test_a_database_that_hangs_is_not_waited_for(sacct):
    sacct.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(SlurmError, match="sacct: no answer within 0 s"):
        allocations(["1"], timeout=0.2)
