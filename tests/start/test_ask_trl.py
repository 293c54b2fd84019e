"""Settings that TRL would refuse in a run are refused before the first job, and no others are."""

import json
import subprocess

import pytest

from reward_ablation.start.ask_trl import as_one_process
from workflow.starting import forking_python


def check(settings, gpus):
    command = [forking_python(), "-m", "reward_ablation.start.ask_trl"]
    run = {"training": settings, "layout": {"gpus": gpus}}
    return subprocess.run(command, input=json.dumps(run), capture_output=True, text=True)


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({"num_generations": 8, "per_device_train_batch_size": 2}, 4),  # 8 completions over 4 processes
        ({"tf32": True, "bf16": True}, 1),  # the machine that submits jobs may have no GPU
        ({"report_to": ["tensorboard"]}, 0),
    ],
)
def test_accepted(settings, gpus):
    result = check(settings, gpus)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("settings", "gpus", "message"),
    [
        ({"num_generations": 8, "per_device_train_batch_size": 2}, 1, "must be divisible by num_generations (8)"),
        ({"deepspeed": "no_such_file.json"}, 1, "training: TRL's GRPOConfig refuses these settings: "),
        ({"report_to": "trackio"}, 0, "report_to: trackio is not installed; pip install trackio"),
    ],
)
def test_refused_in_one_line(settings, gpus, message):
    result = check(settings, gpus)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1].startswith("error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_generated_batch_spans_all_processes():
    assert as_one_process({"per_device_train_batch_size": 2}, 4, 4)["per_device_train_batch_size"] == 8
    assert as_one_process({"generation_batch_size": 16, "per_device_train_batch_size": 2}, 4, 4) == {
        "generation_batch_size": 16,
        "per_device_train_batch_size": 8,
        "bf16": False,
    }
    assert as_one_process({"per_device_train_batch_size": 2}, 0, 2) == {"per_device_train_batch_size": 4}
