"""Two processes share a run: every rollout is logged once, and gradients are reduced before any product."""

import subprocess
import sys

import pandas as pd
import pytest

from reward_ablation.study.spec import canonical

from .conftest import spec_with

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("placement", ["all_tokens", "last_token"])
def test_two_processes(demo_model, problems, tmp_path, placement):
    length = {"function": "token_length", "parameters": {"target": 20, "width": 20}, "placement": placement}
    spec = spec_with(
        components={"length": length},
        weights={"correctness": 0, "format": 0, "length": 1},
        training={"per_device_train_batch_size": 4, "max_steps": 2},
    )
    run = tmp_path / "run" / "seed0"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "reward_ablation.training", "--spec", canonical(spec), "--code", "code"]
    command += ["--model", str(demo_model), "--problems", str(problems), "--run-dir", str(run)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    groups = rollouts.groupby(["step", "problem_id"])["rollout"].apply(sorted)
    assert [len(group) for group in groups] == [4, 4, 4, 4]
    assert all(group == [0, 1, 2, 3] for group in groups)
    # with one component of weight 1, its gradient over both processes is the one that the optimiser takes
    gradients = pd.read_parquet(run / "gradients.parquet").query(
        "layer == 'all' and component_a == 'length' and component_b == 'length' and definition == 'alone'"
    )
    norms = gradients["dot"].to_numpy() ** 0.5
    assert norms == pytest.approx(pd.read_parquet(run / "metrics.parquet").grad_norm.to_numpy(), rel=1e-4)
