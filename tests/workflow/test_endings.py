"""The last lines of a start that does not end well: what failed, or that the same command goes on."""

from __future__ import annotations

import os
import signal
import time

import pytest

from reward_ablation.study.resolve import resolve

from .conftest import with_inputs_of
from .starting import COMMAND_LINE

pytestmark = pytest.mark.slow


def test_a_preparation_that_fails_ends_the_start_with_its_error(study):
    problems = resolve(study.config, "config.yaml", study.folder).problems_file
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
    study.plan()  # writes the config
    with study.running(COMMAND_LINE, "run", "config.yaml", "--cores", "1") as start:
        while not any("step 1/" in path.read_text() for path in study.results.glob("logs/train/*/*.log")):
            assert start.poll() is None, study.log.read_text()
            time.sleep(0.2)
        for _ in range(signals):
            os.killpg(start.pid, signal.SIGINT)
            time.sleep(0.5)
        assert start.wait() != 0
    told = study.log.read_text()
    assert told.splitlines()[-1] == "stopped; the same command goes on from the last checkpoints"
    assert "Traceback" not in told
