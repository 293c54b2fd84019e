"""What is recorded of each attempt: steps, time, Slurm job, what the study had declared; and its progress."""

import json
import time
from types import SimpleNamespace

import pytest
import torch

from reward_ablation.spec.run import Layout
from reward_ablation.study.heartbeat import SAVING as IS_SAVING
from reward_ablation.study.heartbeat import TRAINING, read_heartbeat
from reward_ablation.study.primary import Contrast, Question
from reward_ablation.study.standing import standing_at_begin
from reward_ablation.system.files import write_json
from reward_ablation.training.around.attempts import Attempt
from reward_ablation.training.around.finish import run_record
from reward_ablation.training.around.progress import ProgressCallback
from reward_ablation.training.around.slurm_job import slurm_job

from .interrupting import SAVING, StopAt, attempts

#: The environment of a batch step of Slurm 22.05. tests/slurm has real jobs.
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


def test_times_are_by_a_clock_that_nobody_sets_and_a_slurm_job_is_on_record(train, monkeypatch):
    set_back = time.time() - 86400
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_START_TIME", str(int(set_back) - 10_000))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: set_back)
        run = train("run")
    [attempt] = json.loads((run / "run.json").read_text())["attempts"]
    assert 0 < attempt["start_seconds"] <= attempt["wall_seconds"] < 3600
    assert attempt["slurm"]["id"] == "12"
    # The clock of the job is not the attempt's own, which begins with its process.
    assert attempt["slurm"]["seconds_before"] > 9000


def test_hours_are_of_all_gpus_and_of_all_threads(tmp_path):
    attempt = Attempt(tmp_path, 0, time.perf_counter(), Layout(gpus=2)).record
    assert attempt["threads"] == torch.get_num_threads()
    attempt |= {"wall_seconds": 3600.0, "peak_memory_mb": 1, "ended": "done", "threads": 3}
    attempt["hardware"] = {**attempt["hardware"], "gpus": ["H200"] * 4, "processes": 4}
    owner = {"spec": {"seed": 0}, "code": "", "modules": {}, "inputs": {}}
    record = run_record(owner, [attempt, attempt], 4, tmp_path)
    assert (record["wall_seconds"], record["gpu_hours"], record["cpu_hours"]) == (7200.0, 8.0, 24.0)


def test_a_slurm_job_is_told_by_its_environment(monkeypatch, capsys):
    job = {"id": "3", "name": "study-1f2e3d.train.a-00000000_seed0", "cluster": "test", "partition": "gpu", "nodes": 2}
    job |= {"restarts": 0, "gpus": 4, "cpus": 4, "start": 1795203413, "seconds_before": 7.2}
    assert slurm_job(BATCH, began=1795203420.25) == job
    assert slurm_job({"SLURM_CONF": "/etc/slurm/slurm.conf"}, began=1795203420.0) is None
    monkeypatch.setenv("PATH", "")
    without = {name: value for name, value in BATCH.items() if name != "SLURM_JOB_START_TIME"}
    assert slurm_job(without, began=1795203420.25) == {**job, "start": None, "seconds_before": None}
    assert capsys.readouterr().out.startswith("warning: squeue: no such command")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"SLURM_GPUS": "h200:2,a100:1"}, {"gpus": 3}),  # of these, two may be on one node and one on the other
        ({"SLURM_JOB_CPUS_PER_NODE": "72(x2),36"}, {"cpus": 180}),
        ({"SLURM_JOB_CPUS_PER_NODE": ""}, {"cpus": None}),
        # The controller's clock is ahead of the node's.
        ({"SLURM_JOB_START_TIME": "1795203499"}, {"start": 1795203499, "seconds_before": 0.0}),
    ],
)
def test_numbers_are_of_the_whole_job(changes, told):
    assert slurm_job(BATCH | changes, began=1795203420.25).items() >= told.items()


@pytest.mark.slow
def test_the_first_attempt_decides_what_stood_when_a_run_began(train, trained, tmp_path):
    (tmp_path / "disk").mkdir()
    study = tmp_path / "study"
    study.mkdir()
    (study / "runs").symlink_to(tmp_path / "disk")  # a large disk for runs

    def declare(metric: str) -> str:
        question = Question(dataset="d", mode="greedy", metric=metric, contrasts=[Contrast(arm="b", against="a")])
        since = {"declared": "2026-01-31T12:00:00Z", "digest": question.key, "runs_then": 0, "in_runs": True}
        write_json({"primary": {**question.model_dump(), **since}}, study / "study.json")
        return question.key

    first = declare("accuracy_strict")
    with pytest.raises(KeyboardInterrupt):
        train("study/runs/arm", training=SAVING, callbacks=[StopAt(3)])
    assert [*standing_at_begin(study / "runs/arm/seed0")["primary"]] == [first]
    second = declare("format")
    run = train("study/runs/arm", training=SAVING)
    assert attempts(run) == [(0, -1, "killed"), (2, 4, "done")]
    assert [*standing_at_begin(run)["primary"]] == [first]
    declared = json.loads((run / "run.json").read_text())["attempts"][1]["declarations"]
    standing = {"declared": "2026-01-31T12:00:00Z", "runs_then": 0, "in_runs": True, "arms": {}}
    assert declared == {"primary": {second: standing}}
    assert standing_at_begin(trained()) is None  # a run without a study


def test_each_step_has_a_line_and_the_heartbeat_the_first_of_them(capsys, tmp_path):
    state = SimpleNamespace(max_steps=40, global_step=20, is_world_process_zero=True)
    callback = ProgressCallback(["correctness"], tmp_path)
    callback.on_train_begin(None, state, None)
    assert capsys.readouterr().out == "train: 40 steps, from step 21\n"
    found = read_heartbeat(tmp_path)
    assert (found.doing, found.step, found.steps, found.reward) == (TRAINING, 20, 40, None)
    state.global_step = 21
    callback.on_log(None, state, None, {"loss": 0.1, "reward": -0.25, "rewards/correctness/mean": 0.5})
    found = read_heartbeat(tmp_path)
    assert (found.step, found.steps, found.reward) == (21, 40, -0.25)
    assert found.seconds_per_step > 0
    callback.on_log(None, state, None, {"loss": 0.1})  # a step on the same rollouts
    line, other = capsys.readouterr().out.splitlines()
    assert line.startswith("step 21/40: reward -0.250 (correctness 0.500), nan tokens, ")
    assert other == "step 21/40: loss 0.1000"
    state.global_step = 22
    callback.on_log(None, state, None, {"loss": 0.1, "reward": 1.0})
    assert read_heartbeat(tmp_path).step == 21  # no second file within some seconds
    callback.on_step_end(None, state, SimpleNamespace(should_save=True))
    assert (read_heartbeat(tmp_path).doing, read_heartbeat(tmp_path).step) == (IS_SAVING, 22)
    callback.on_save(None, state, None)
    assert read_heartbeat(tmp_path).doing == TRAINING
