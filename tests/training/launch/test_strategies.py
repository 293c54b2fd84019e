"""DeepSpeed by the run's spec alone: the training command starts it, it resumes, and it saves a whole model."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from safetensors import safe_open

from ..conftest import spec_with
from ..given import assert_same_rollouts
from ..interrupting import attempts, digests

#: Where `make test` installs DeepSpeed: beside the environment's own packages.
PACKAGES = Path(sys.prefix) / "deepspeed"

TRAINING = {"per_device_train_batch_size": 4, "max_steps": 4}

deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None and not PACKAGES.is_dir(), reason="DeepSpeed is not installed; `make test` does"
)


def with_deepspeed() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))}


@pytest.mark.slow
@pytest.mark.long
@deepspeed
@pytest.mark.parametrize(("strategy", "slices"), [("zero2", "*_optim_states.pt"), ("zero3", "*_model_states.pt")])
def test_zero_generates_what_one_process_does_and_goes_on_where_it_was_stopped(
    command, train, tmp_path, strategy, slices
):
    spec = spec_with(training={**TRAINING, "max_steps": 12}, processes=2, strategy=strategy)
    whole, stopped = tmp_path / "whole" / "seed0", tmp_path / "stopped" / "seed0"
    result = subprocess.run(command(spec, whole), capture_output=True, text=True, timeout=300, env=with_deepspeed())
    assert result.returncode == 0, result.stderr
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command(spec, stopped), stdout=file, stderr=file, env=with_deepspeed())
    deadline = time.monotonic() + 240
    while "step 2/12" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == os.EX_TEMPFAIL, log.read_text()
    assert "train: stopped at step " in log.read_text()
    saved = next((stopped / ".work").glob("checkpoint-*/global_step*"))
    assert len(list(saved.glob(f"*zero_pp_rank_[01]{slices}"))) == 2  # each process its own
    result = subprocess.run(command(spec, stopped), capture_output=True, text=True, timeout=300, env=with_deepspeed())
    assert result.returncode == 0, result.stderr
    assert [ended for _, _, ended in attempts(stopped)] == ["SIGTERM", "done"]
    assert digests(stopped) == digests(whole)
    assert_same_rollouts(train("one", training={**TRAINING, "per_device_train_batch_size": 8, "max_steps": 12}), whole)
    with safe_open(whole / "model" / "model.safetensors", "pt") as weights:
        assert all(min(weights.get_slice(name).get_shape()) > 0 for name in weights.keys())  # noqa: SIM118


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"processes": 2, "strategy": "zero2"}, "error: launch.strategy: the package deepspeed is not installed"),
        (
            {"vllm": {"mode": "colocate", "tensor_parallel_size": 1}},
            "error: launch.vllm: the package vllm is not installed",
        ),
    ],
)
def test_a_package_that_is_not_installed_is_one_line(command, tmp_path, more, told):
    package = "deepspeed" if "strategy" in more else "vllm"
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    result = subprocess.run(command(spec_with(**more), tmp_path / "run"), capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1
