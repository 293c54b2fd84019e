"""Runs side by side on a machine without GPUs, whose nvidia-smi is a stand-in that lists several (`stand_in_gpus`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stand_in_gpus import Machine

from .conftest import refusal
from .starting import forking_python

#: Jobs that claim their GPUs as runs do.
SNAKEFILE = """
from reward_ablation.start.reruns import share_gpus

share_gpus(workflow)

resource_scopes:
    gpu="local",

rule all:
    input:
        expand("{number}.txt", number=range(4)),

rule job:
    output:
        "{number}.txt",
    resources:
        gpu=config["gpus"],
    shell:
        "python job.py {output} {config[gpus]} {config[together]}"

"""
#: A file by GPU says that it is in use, and there can be no second; each waits until so many have run together.
JOB = """
import os, sys, time
from pathlib import Path
from reward_ablation.system.gpus import claim_gpus
output, gpus, together = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
locks = claim_gpus(gpus, "job")
names = os.environ["CUDA_VISIBLE_DEVICES"]
used = Path(os.environ["USED"])
marks = [used / name for name in names.split(",")]
for mark in marks:
    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
deadline = time.monotonic() + 60
while len(list(used.glob("[0-9]*"))) < together and not (used / "together").exists():
    assert time.monotonic() < deadline, "the others were not started"
    time.sleep(0.05)
(used / "together").touch()
time.sleep(0.5)
for mark in marks:
    mark.unlink()
output.write_text(names)
"""


@pytest.fixture
def machine(tmp_path):
    """A machine with three GPUs."""
    made = Machine(tmp_path / "machine", 3)
    yield made
    made.clear()


@pytest.fixture
def start(machine, tmp_path):
    """Starts Snakemake in a folder of its own: its status, what it printed, and the GPUs of each job."""

    def snakemake(*arguments, gpus=1, together=1, **environment):
        study = tmp_path / "study"
        study.mkdir()
        (study / "Snakefile").write_text(SNAKEFILE)
        (study / "job.py").write_text(JOB)
        environment = machine.environment(USED=str(machine.program.parent), **environment)
        environment["PATH"] = f"{os.path.dirname(sys.executable)}:{environment['PATH']}"
        command = [forking_python(), "-m", "snakemake", "--cores", "8", *arguments]
        command += ["--config", f"gpus={gpus}", f"together={together}"]
        done = subprocess.run(command, cwd=study, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, [path.read_text() for path in study.glob("[0-9].txt")]

    return snakemake


@pytest.mark.parametrize(
    ("gpus", "arguments", "together", "environment", "may_get"),
    [
        (1, [], 3, {}, {"0", "1", "2"}),
        (2, [], 2, {}, {"0,1", "0,2", "1,2"}),
        (1, ["--resources", "gpu=2"], 2, {}, {"0", "1", "2"}),
        (1, [], 2, {"CUDA_VISIBLE_DEVICES": "0,2"}, {"0", "2"}),
    ],
)
def test_as_many_jobs_run_together_as_there_are_gpus_for_each_on_its_own(
    start, gpus, arguments, together, environment, may_get
):
    status, printed, got = start(*arguments, gpus=gpus, together=together, **environment)
    assert status == 0, printed
    assert len(got) == 4
    assert "waiting for" not in printed  # none is started before there is a GPU for it
    assert set(got) <= may_get


def test_a_study_with_too_few_gpus_ends_before_its_first_job(machine, study, monkeypatch):
    for name, value in machine.environment().items():
        monkeypatch.setenv(name, value)
    for name in set(os.environ) - set(machine.environment()):
        monkeypatch.delenv(name)
    study.config["launch"] = {"gpus": 4}
    assert study.planned()["train"] == 4
    assert machine.calls == 0, "a dry run looks for no GPU"
    assert "error: launch.gpus: a run takes 4 GPUs and this machine shows 3 GPUs" in refusal(study.snakemake())
    assert not (study.results / "models").exists()
    study.make("results/tiny/study.json")  # needs none
