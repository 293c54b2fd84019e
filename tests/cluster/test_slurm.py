"""What Slurm lists: a study's jobs by name and comment, limits of partitions, and GPUs of nodes."""

import pytest

from reward_ablation.cluster import slurm
from reward_ablation.cluster.job_names import comment, digest_of, job_name, params_in, prefix, then_in
from reward_ablation.cluster.slurm import SlurmJob, gpus_of, live_jobs, run_jobs

MIG = "nvidia_h100_1g.10gb+me"
RUN, OTHER = "mixed-1a2b3c4d/seed0", "other-1a2b3c4d/seed0"


def job(number: str, name: str, state: str = "RUNNING") -> SlurmJob:
    return SlurmJob(number, name, state, "None", "", None, None)


def test_live_jobs_of_the_study_alone(tmp_path):
    mine, same_name = prefix("demo", tmp_path / "one"), prefix("demo", tmp_path / "other")
    assert mine == prefix("demo", tmp_path / "other" / ".." / "one")
    assert job_name("demo-1f2e3d", "train", RUN) == "demo-1f2e3d.train.mixed-1a2b3c4d_seed0"
    jobs = [
        job("1", job_name(mine, "train", RUN)),
        job("2", job_name(mine, "train", OTHER), "CANCELLED"),
        job("3", job_name(same_name, "train", RUN)),
        job("4", f"{mine}x.train.more"),
        job("5", "shell"),
    ]
    assert [found.id for found in live_jobs(mine, jobs).values()] == ["1"]
    assert {run: found.id for run, found in run_jobs(mine, [RUN, OTHER], jobs).items()} == {RUN: "1"}


def test_the_work_of_a_job_is_found_again_in_its_comment():
    digest = digest_of(['{"seed": 0}', "6200ff6c"])
    assert digest != digest_of(['{"seed": 1}', "6200ff6c"])
    names = [job_name("demo-1f2e3d", "evaluate", f"{RUN}_{data}") for data in ("one", "two", "three")]
    written = comment(f"train {RUN}", digest, {names[0]: "123", names[1]: "456"})
    assert params_in(written) == digest
    assert then_in(written, names) == {names[0]: "123", names[1]: "456"}
    assert then_in(written, names[1:]) == {names[1]: "456"}
    for other, params in ((comment(f"train {RUN}", digest, {}), digest), ("somebody's then=own comment", "")):
        assert (params_in(other), then_in(other, names)) == (params, {})


@pytest.mark.parametrize("order", [1, -1])
def test_a_job_that_is_ending_gives_way_to_its_successor(tmp_path, order):
    mine = prefix("demo", tmp_path)
    jobs = [job("12", job_name(mine, "train", RUN), "PENDING"), job("11", job_name(mine, "train", RUN), "COMPLETING")]
    assert run_jobs(mine, [RUN], jobs[::order])[RUN].id == "12"


def test_large_numbers_of_sinfo_have_a_letter(monkeypatch):
    nodes = "".join(f"gpu|n{cpus}|{cpus}|1547000+|idle|gpu:8\n" for cpus in ("96", "512+", "1K", "2K+", "1M"))
    told = {"sinfo": nodes, "scontrol": "PartitionName=gpu Default=YES State=UP MaxTime=7-12:30:00\n"}
    monkeypatch.setattr(slurm, "run_slurm_command", lambda command, *_: told[command])
    found = slurm.partitions()["gpu"]
    assert [node.cpus for node in found.nodes] == [96, 512, 1024, 2048, 1048576]
    assert {node.mem_mb for node in found.nodes} == {1547000}
    assert found.max_minutes == 7 * 1440 + 750


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("(null)", {}),
        ("shard:h100:16,gpu:a100:4(S:0-1),gpu:v100:2(S:1)", {"a100": 4, "v100": 2}),
        ("gpu:nvidia_h100_1g.10gb+me:1(S:0),gpu:nvidia_a100-sxm4-80gb:8", {MIG: 1, "nvidia_a100-sxm4-80gb": 8}),
        ("craynetwork:4,gpu:2", {"": 2}),
        ("mygpu:3", {}),
    ],
)
def test_gpus_of_a_node(gres, gpus):
    assert gpus_of(gres) == gpus
