"""Requests that a real Slurm refuses are refused before anything is submitted."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest

from reward_ablation.cluster.preflight import refusal
from reward_ablation.cluster.request import request_of
from reward_ablation.cluster.site import Site
from reward_ablation.cluster.slurm import Node, partitions

from .cluster import Cluster, wait_until
from .studies import SITE, ClusterStudy


@pytest.fixture
def there(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The cluster's partitions."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return partitions()


def asked(**resources):
    job = SimpleNamespace(rule=SimpleNamespace(name="train"), resources=resources, threads=1, attempt=1)
    return request_of([job], Site.model_validate(SITE))


def test_partitions_and_nodes_as_slurm_tells_them(there):
    assert set(there) == {"gpu", "short", "cpu", "high", "low_cancel"}
    assert there["gpu"].default
    assert (there["gpu"].max_minutes, there["short"].max_minutes) == (1440, 5)
    assert there["gpu"].nodes == [Node(name, 8, 16000, {"h200": 2}) for name in ("n1", "n2")]


@pytest.mark.parametrize("gpus_by", ["gpus", "gres"])
@pytest.mark.parametrize("resources", [{}, {"gpu": 2, "gpu_model": "h200"}, {"gpu": 4, "nodes": 2}])
def test_slurm_takes_what_fits(there, gpus_by, resources):
    assert refusal(asked(**resources), gpus_by, there) is None


#: Options that Slurm 22.05 has.
TAKEN = [
    "--acctg-freq=30 --begin=now+1hour --core-spec=0 --cores-per-socket=1 --cpu-freq=high --deadline=now+2days",
    "--delay-boot=0 --exclude=n2 --gpu-freq=high --gres-flags=enforce-binding --hint=nomultithread",
    "--mail-type=FAIL --mail-user=me@x.org --mincpus=1 --network=none --nodelist=n1 --prefer=x --priority=1",
    "--profile=none --sockets-per-node=1 --switches=1@1:00 --thread-spec=1 --threads-per-core=1 --time-min=1 --tmp=0",
    "--wait-all-nodes=1 --wckey=a --exclusive=user --nice=5 --propagate=NONE --contiguous -s --exclusive --nice",
    "--distribution=block --gpu-bind=closest --mem-bind=local --no-kill",
]


@pytest.mark.parametrize("options", TAKEN)
def test_slurm_knows_the_options_that_are_taken(there, options):
    assert "unrecognized" not in (refusal(asked(slurm_extra=options), "gpus", there) or "")


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"slurm_partition": "none"}, "; partitions here: cpu, gpu, high, low_cancel, short ("),
        (
            {"runtime": 2000},
            "train: asks for 33.3333 hours; partition gpu gives a job at most 24 hours (training that ",
        ),
        ({"gpu": 3}, "at most 8 CPUs, 16000 MB of memory, 2 GPUs of type h200"),
        ({"nodes": 3}, "on 2 nodes"),
        ({"constraint": "infiniband"}, "Slurm refuses such a job: sbatch: allocation failure: Invalid feature"),
    ],
)
def test_what_does_not_fit_is_told(there, resources, told):
    assert told in (refusal(asked(**resources), "gpus", there) or "")


def refused(study: ClusterStudy, *arguments: str) -> str:
    """What a start prints that ends with an error before it submits anything."""
    before = {job.id for job in study.cluster.jobs()}
    status, said = study.run(*study.targets(), *arguments)
    assert status == 1
    assert "Traceback" not in said
    assert {job.id for job in study.cluster.jobs()} == before
    return said


@pytest.mark.slow
@pytest.mark.long
def test_a_start_that_cannot_go_well_submits_nothing(study: ClusterStudy):
    study.environment |= {"SBATCH_ARRAY_INX": "1-2"}
    study.site["partition"] = "gpuu"
    said = refused(study)
    assert said.strip().splitlines()[-1].startswith("error: ")
    assert "warning: SBATCH_ARRAY_INX: has no effect; the site file says" in said
    assert "site.yaml: train: Slurm refuses such a job: sbatch: invalid partition specified: gpuu" in said
    said = refused(study, "--groups", "train=g", "--group-components", "g=2")
    assert "`bundle` in the site file says which jobs share a Slurm job" in said
    study.environment["SLURM_CONF"] = str(study.folder / "nowhere.conf")
    status, said = study.train()
    assert status == 1
    assert [line for line in said.splitlines() if line.startswith("error: sinfo: ")]


@pytest.mark.slow
@pytest.mark.long
def test_no_room_for_the_checkpoints(study: ClusterStudy):
    """A model that says to be large: its record is what the estimate goes by."""
    record = next(study.results.glob("models/*/model.json"))
    written = json.loads(record.read_text())
    free = shutil.disk_usage(study.results).free
    record.write_text(json.dumps(written | {"parameters": free // 60}))
    assert "make room, lower save_total_limit, or train fewer at once" in refused(study)
    status, said = study.run(*study.targets(), "--jobs", "1")
    assert status == 0, said


@pytest.mark.slow
@pytest.mark.long
def test_jobs_of_an_earlier_start_that_do_something_else(study: ClusterStudy, cluster: Cluster):
    study.slow(3)
    start = study.start(study.targets()[0])
    study.wait_for_step("one", 1)
    start.kill()
    start.wait()
    number = study.job_of("one")
    status, said = study.run(f"results/{study.config['name']}/study.json")
    assert status == 0, said
    assert f"Slurm job {number} of an earlier start" in said
    assert "makes nothing that this start needs" in said
    # As if it had been submitted by other code.
    cluster.run("scontrol", "update", f"JobId={number}", "Comment=params=of_other_code")
    status, said = study.run(study.targets()[0])
    assert status == 1
    assert f"end it with `scancel {number}`, or wait for it, then run the same command again" in said
    cluster.run("scancel", number)
    wait_until("its end", lambda: cluster.state(number) == "CANCELLED")
    study.slow(0)
    status, said = study.run(study.targets()[0])
    assert status == 0, said
