"""Two processes share a run: every rollout is logged once, and gradients equal those of one process."""

import json
import os
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from .conftest import spec_with
from .given import RUNS, assert_same, assert_same_rollouts, assert_shares_are_the_training_gradient
from .interrupting import attempts, digests

pytestmark = pytest.mark.slow

LAUNCHER = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


#: A reward that signals one of the processes in the first step, where the test wants it.
SIGNALLING = """
import os, signal

def length(completions, **columns):
    if os.environ.get("SIGNALLED") == os.environ.get("RANK", ""):
        os.environ["SIGNALLED"] = ""
        os.kill(os.getpid(), signal.SIGTERM)
    return [float(len(completion)) for completion in completions]
"""


@pytest.mark.long
def test_two_processes_generate_as_one_and_a_signal_to_one_stops_both_and_they_go_on(train, forked, tmp_path):
    (tmp_path / "signalling.py").write_text(SIGNALLING)
    length = {"function": f"{tmp_path / 'signalling.py'}:length", "parameters": {}}
    training = {"per_device_train_batch_size": 4, "max_steps": 3, "num_iterations": 2}
    spec = spec_with(training=training, components={"length": length}, processes=2)

    def train_in_two(run: Path, **environment: str) -> subprocess.CompletedProcess:
        how = {"capture_output": True, "text": True, "timeout": 300, "env": {**os.environ, **environment}}
        return subprocess.run(forked(spec, run), **how)

    whole, stopped = tmp_path / "whole" / "seed0", tmp_path / "stopped" / "seed0"
    assert train_in_two(whole).returncode == 0
    rollouts = pd.read_parquet(whole / "rollouts.parquet")
    groups = rollouts.groupby(["step", "problem_id"])["rollout"].apply(sorted)
    assert groups.tolist() == [[0, 1, 2, 3]] * 4
    one = {**training, "per_device_train_batch_size": 8}
    assert_same_rollouts(train("one", training=one, components={"length": length}), whole)
    result = train_in_two(stopped, SIGNALLED="1")
    assert result.returncode != 0
    assert "stopped at step 1 of 3: SIGTERM; the same command goes on from there" in result.stdout
    assert train_in_two(stopped).returncode == 0
    assert attempts(stopped) == [(0, 1, "SIGTERM"), (1, 3, "done")]
    assert digests(stopped) == digests(whole)


def test_two_processes_are_as_one(one_process, two_processes):
    folder = two_processes(LAUNCHER)
    for name in RUNS:
        assert_same(one_process / name, folder / name)
        assert_shares_are_the_training_gradient(folder / name, step=1)
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        expected = pq.read_table(folder / name / "rollouts.parquet").to_pylist()
        assert [{column: row[column] for column in expected[0]} for row in rows] == expected
