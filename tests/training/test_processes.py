"""Two processes share a run, also under DeepSpeed: every rollout is logged once, gradients equal those of one."""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

from .conftest import spec_with
from .given import RUNS, assert_same, assert_same_rollouts, assert_shares_are_the_training_gradient
from .interrupting import attempts, digests, started, wait_for

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_two_processes_are_as_one(one_process, two_processes):
    folder = two_processes(LAUNCHER)
    for name in RUNS:
        assert_same(one_process / name, folder / name)
        assert_shares_are_the_training_gradient(folder / name, step=1)
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        expected = pq.read_table(folder / name / "rollouts.parquet").to_pylist()
        assert [{column: row[column] for column in expected[0]} for row in rows] == expected


#: Where `make test` installs DeepSpeed: beside the environment's own packages.
PACKAGES = Path(sys.prefix) / "deepspeed"

deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None and not PACKAGES.is_dir(), reason="DeepSpeed is not installed; `make test` does"
)


@pytest.mark.slow
@deepspeed
def test_zero_3_is_as_one_process(one_process, two_processes, tmp_path):
    """Gradients and weights are in slices, and measurements equal those of one process."""
    config = tmp_path / "deepspeed.json"
    settings = ["gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "gradient_clipping"]
    zero = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
    zero |= {"stage3_param_persistence_threshold": 0}  # small weights would be kept whole
    config.write_text(json.dumps({"zero_optimization": zero, **dict.fromkeys(settings, "auto")}))
    launcher = ["accelerate.commands.launch", "--use_deepspeed", "--deepspeed_config_file", str(config)]
    launcher += ["--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", "0"]
    runs = ["one_pass", "many_passes", "combined_ahead"]
    folder = two_processes(launcher, packages=str(PACKAGES), strategy="zero3", runs=runs)
    for name in runs:
        assert_same(one_process / name, folder / name)
        assert_shares_are_the_training_gradient(folder / name, step=1)


@pytest.mark.slow
@pytest.mark.long
@deepspeed
@pytest.mark.parametrize(("strategy", "slices"), [("zero2", "*_optim_states.pt"), ("zero3", "*_model_states.pt")])
def test_zero_generates_as_one_process_and_goes_on_where_it_was_stopped(command, train, tmp_path, strategy, slices):
    training = {"per_device_train_batch_size": 4, "max_steps": 12}
    spec = spec_with(training=training, processes=2, strategy=strategy)
    whole, stopped, log = tmp_path / "whole" / "seed0", tmp_path / "stopped" / "seed0", tmp_path / "log"
    paths = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths}

    def finish(run: Path) -> None:
        result = subprocess.run(command(spec, run), capture_output=True, text=True, timeout=300, env=environment)
        assert result.returncode == 0, result.stderr

    finish(whole)
    with started(command(spec, stopped), log, environment) as process:
        wait_for("step 2/12", log, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == os.EX_TEMPFAIL, log.read_text()
    assert "train: stopped at step " in log.read_text()
    saved = next((stopped / ".work").glob("checkpoint-*/global_step*"))
    assert len(list(saved.glob(f"*zero_pp_rank_[01]{slices}"))) == 2  # each process its own
    finish(stopped)
    assert [ended for _, _, ended in attempts(stopped)] == ["SIGTERM", "done"]
    assert digests(stopped) == digests(whole)
    assert_same_rollouts(train("one", training={**training, "per_device_train_batch_size": 8}), whole)
    with safe_open(whole / "model" / "model.safetensors", "pt") as weights:
        assert all(min(weights.get_slice(name).get_shape()) > 0 for name in weights.keys())  # noqa: SIM118
