"""Two processes share a run: every rollout is logged once, and gradients are those of one process."""

import subprocess
import sys

import pandas as pd
import pytest

from reward_ablation.study.spec import canonical

from .conftest import spec_with
from .given import RUNS, assert_same, assert_shares_are_the_training_gradient

pytestmark = pytest.mark.slow

LAUNCHER = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_two_processes(demo_model, problems, tmp_path):
    spec = spec_with(training={"per_device_train_batch_size": 4, "max_steps": 2})
    run = tmp_path / "run" / "seed0"
    command = [sys.executable, "-m", *LAUNCHER, "-m", "reward_ablation.training"]
    command += ["--spec", canonical(spec), "--code", "code"]
    command += ["--model", str(demo_model), "--problems", str(problems), "--run-dir", str(run)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    groups = rollouts.groupby(["step", "problem_id"])["rollout"].apply(sorted)
    assert [len(group) for group in groups] == [4, 4, 4, 4]
    assert all(group == [0, 1, 2, 3] for group in groups)
    for step in (1, 2):
        assert_shares_are_the_training_gradient(run, step)


def test_two_processes_are_as_one(one_process, two_processes):
    folder = two_processes(LAUNCHER)
    for name in RUNS:
        assert_same(one_process / name, folder / name)
        assert_shares_are_the_training_gradient(folder / name, step=1)
