"""The training command: it waits for the holder of its lock, and trains with the planned code only."""

import os
import subprocess

import pytest

from reward_ablation.spec.canonical import canonical
from reward_ablation.system.locks import take
from workflow.starting import forking_python

from .conftest import spec_with


@pytest.fixture
def command(demo_model, problems, tmp_path):
    """The command that trains a run in `tmp_path / "run"`, with the digest of other code."""
    command = [forking_python(), "-m", "reward_ablation.training", "--spec", canonical(spec_with()), "--code", "0" * 16]
    return [*command, "--model", str(demo_model), "--problems", str(problems), "--run-dir", str(tmp_path / "run")]


def test_it_waits_for_a_process_that_trains_the_run_and_refuses_other_code_than_planned(command, tmp_path):
    environment = {**os.environ, "WORLD_SIZE": "1"}  # as some batch systems set it
    with take(tmp_path / "run" / ".lock"):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert f"train: waiting for process {os.getpid()} on " in process.stderr.readline()
        assert process.poll() is None
    told = process.communicate()[1].splitlines()[-1]
    assert told == "error: the training code has changed since the workflow was started; start it again"
    assert process.returncode == 1
    assert not (tmp_path / "run" / "run.json").exists()
