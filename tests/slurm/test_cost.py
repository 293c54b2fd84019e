"""Records of Slurm jobs in runs, and costs computed from them, on a real cluster."""

import json
import math
import sys

import pytest

from reward_ablation.analysis.runs import RunRecord
from reward_ablation.analysis.study_file import StudyRun
from reward_ablation.report.cost.tables import cost_of_run
from specs import arm_spec

from .cluster import Cluster
from .studies import ClusterStudy

TELL = (
    "import json, os, time; from reward_ablation.training.around.slurm_job import slurm_job; "
    "print(json.dumps(slurm_job(os.environ, time.time())), flush=True)"
)


def test_a_process_knows_its_job(cluster: Cluster):
    tell = f'{sys.executable} -c "{TELL}"'
    script = f"sleep 2\n{tell}\nsrun --ntasks-per-node=1 {tell}"
    asked = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=3", "--job-name=a.train.b"]
    job = cluster.submit(script, *asked, "--gres=gpu:h200:2")
    assert cluster.wait_for(job) == "COMPLETED"
    there = [json.loads(line) for line in cluster.log(job).splitlines() if line.startswith("{")]
    assert len(there) == 3  # the batch script and a task on each node
    of_job = {"id": job, "name": "a.train.b", "cluster": "test", "partition": "gpu", "nodes": 2, "restarts": 0}
    for one in there:
        assert one["seconds_before"] >= 1  # Slurm tells whole seconds
        assert one.items() >= {**of_job, "gpus": 4, "cpus": 6}.items()


@pytest.mark.slow
def test_a_run_through_the_profile_has_the_hours_of_its_own_job(undisturbed: ClusterStudy):
    for arm, written in undisturbed.records().items():
        [attempt] = written["attempts"]
        job = attempt["slurm"]
        [path] = undisturbed.results.glob(f"runs/{arm}-*/seed0")
        run = StudyRun(arm=arm, key="", seed=0, folder=str(path.relative_to(undisturbed.results)), spec=arm_spec())
        cost = cost_of_run(run, RunRecord.model_validate(written), {})
        hours = job["cpus"] * (job["seconds_before"] + attempt["wall_seconds"]) / 3600
        assert cost["cpu_hours_of_jobs"] == pytest.approx(hours, abs=1e-4)
        assert cost["cpu_hours_of_jobs"] > cost["cpu_hours"] > 0
        assert cost["gpu_hours_of_jobs"] == 0
        assert math.isnan(cost["cpu_hours_accounted"])
