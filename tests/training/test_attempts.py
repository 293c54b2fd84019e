"""The record of each attempt: the steps that it trained, and its time."""

import json
import time

import torch

from reward_ablation.spec.run import Layout
from reward_ablation.training.around.attempts import Attempt
from reward_ablation.training.around.finish import run_record


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
