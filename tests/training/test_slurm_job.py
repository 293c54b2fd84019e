"""Facts of a Slurm job from environments of batch steps of Slurm 22.05. tests/slurm has real jobs."""

import pytest

from reward_ablation.training.around.slurm_job import slurm_job

BATCH = {
    "SLURM_CLUSTER_NAME": "test",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
    "SLURM_JOB_ID": "3",
    "SLURM_JOB_NAME": "study-1f2e3d.train.a-00000000_seed0",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_START_TIME": "1795203413",
}


def test_a_job_is_told_by_its_environment():
    assert slurm_job(BATCH, began=1795203420.25) == {
        "id": "3",
        "name": "study-1f2e3d.train.a-00000000_seed0",
        "cluster": "test",
        "partition": "gpu",
        "nodes": 2,
        "restarts": 0,
        "gpus": 4,
        "cpus": 4,
        "start": 1795203413,
        "seconds_before": 7.2,
    }
    assert slurm_job({"SLURM_CONF": "/etc/slurm/slurm.conf"}, began=1795203420.0) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"SLURM_GPUS": "3"}, {"gpus": 3}),  # of --gpus=3 two may be on one node and one on the other
        ({"SLURM_GPUS": "h200:2,a100:1"}, {"gpus": 3}),
        ({"SLURM_GPUS_ON_NODE": ""}, {"gpus": 0}),
        ({"SLURM_JOB_CPUS_PER_NODE": "72(x2),36"}, {"cpus": 180}),
        ({"SLURM_JOB_CPUS_PER_NODE": ""}, {"cpus": None}),
        ({"SLURM_RESTART_COUNT": "2"}, {"restarts": 2}),
        # The controller's clock is ahead of the node's.
        ({"SLURM_JOB_START_TIME": "1795203499"}, {"start": 1795203499, "seconds_before": 0.0}),
    ],
)
def test_numbers_are_of_the_whole_job(changes, told):
    job = slurm_job(BATCH | changes, began=1795203420.25)
    assert {name: job[name] for name in told} == told


def test_a_start_that_nobody_tells_is_not_on_record(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    environment = {name: value for name, value in BATCH.items() if name != "SLURM_JOB_START_TIME"}
    job = slurm_job(environment, began=1795203420.25)
    assert (job["start"], job["seconds_before"]) == (None, None)
    assert capsys.readouterr().out.startswith("warning: squeue: no such command")
