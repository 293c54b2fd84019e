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
    if os.environ.get("SIGNALLED") == os.environ["RANK"]:
        os.environ["SIGNALLED"] = ""
        os.kill(os.getpid(), signal.SIGTERM)
    return [float(len(completion)) for completion in completions]
"""


@pytest.fixture
def train_in_two(forked):
    """`train_in_two(spec, run, **environment)` trains a run in two processes."""

    def train(spec: dict, run: Path, **environment: str) -> subprocess.CompletedProcess:
        launched = forked({**spec, "processes": 2}, run)
        return subprocess.run(launched, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})

    return train


@pytest.mark.long
def test_two_processes(train_in_two, tmp_path):
    run = tmp_path / "run" / "seed0"
    result = train_in_two(spec_with(training={"per_device_train_batch_size": 4, "max_steps": 2}), run)
    assert result.returncode == 0, result.stderr
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    groups = rollouts.groupby(["step", "problem_id"])["rollout"].apply(sorted)
    assert [len(group) for group in groups] == [4, 4, 4, 4]
    assert all(group == [0, 1, 2, 3] for group in groups)
    for step in (1, 2):
        assert_shares_are_the_training_gradient(run, step)


@pytest.mark.long
def test_two_processes_generate_what_one_does(train, train_in_two, tmp_path):
    """Each rollout by its own seed, whoever generates it; in given completions the other tests compare gradients."""
    of_two = tmp_path / "two" / "seed0"
    result = train_in_two(spec_with(training={"per_device_train_batch_size": 4, "num_iterations": 2}), of_two)
    assert result.returncode == 0, result.stderr
    assert_same_rollouts(train("one", training={"num_iterations": 2}), of_two)


@pytest.mark.long
def test_a_signal_to_one_process_stops_both_and_they_go_on(train_in_two, tmp_path):
    (tmp_path / "signalling.py").write_text(SIGNALLING)
    length = {"function": f"{tmp_path / 'signalling.py'}:length", "parameters": {}}
    training = {"per_device_train_batch_size": 4, "max_steps": 3, "num_iterations": 2}
    spec = spec_with(training=training, components={"length": length})
    whole, stopped = tmp_path / "whole" / "seed0", tmp_path / "stopped" / "seed0"
    assert train_in_two(spec, whole).returncode == 0
    result = train_in_two(spec, stopped, SIGNALLED="1")
    assert result.returncode != 0
    assert "stopped at step 1 of 3: SIGTERM; the same command goes on from there" in result.stdout
    assert train_in_two(spec, stopped).returncode == 0
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
