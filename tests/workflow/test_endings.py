"""The last lines of a start that does not end well: what failed, or that the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from reward_ablation.study.resolve import resolve

from .conftest import ROOT, with_inputs_of
from .starting import forking_python

pytestmark = pytest.mark.slow


def test_a_preparation_that_fails_ends_the_start_with_its_error(study):
    [problems] = [resolve(study.config, "config.yaml", study.folder).problems_file]
    record = (study.results / problems).with_suffix(".json")
    record.mkdir(parents=True)  # where the preparation writes a file
    result = study.snakemake()
    assert result.returncode == 1
    assert not (study.results / "evaluation").exists()  # of the base model, which was fetched meanwhile
    lines = result.stderr.splitlines()
    [last] = [line for line in lines if "; log: " in line]
    assert lines[-1] == last
    assert last.startswith("error: ")
    assert str(record.relative_to(study.folder)) in last
    assert last.endswith("; log: results/tiny/logs/prepare/train.log")


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_start_says_that_the_same_command_goes_on(finished, study, signals):
    with_inputs_of(finished, study)
    study.config["training"]["max_steps"] = 4000
    assert study.command("plan", "--quick").returncode == 0  # writes the config
    command = [forking_python(), "-m", "reward_ablation.start.command_line", "run", "config.yaml", "--cores", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    log = study.folder / "log"
    with log.open("w") as file:
        start = subprocess.Popen(
            command, cwd=study.folder, env=environment, start_new_session=True, stdout=file, stderr=file
        )
    deadline = time.monotonic() + 300
    while not any("step 1/" in path.read_text() for path in study.results.glob("logs/train/*/*.log")):
        assert start.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    for _ in range(signals):
        os.killpg(start.pid, signal.SIGINT)
        time.sleep(0.5)
    start.wait()
    told = log.read_text()
    assert told.splitlines()[-1] == "stopped; the same command goes on from the last checkpoints"
    assert "Traceback" not in told
    assert start.returncode != 0
