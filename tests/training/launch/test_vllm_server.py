"""The server's command, messages from its log, and the training command that starts it, with a stand-in for vLLM."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import take
from reward_ablation.training.around.job import Server
from reward_ablation.training.around.launch.vllm_server import ServerPlan, last_words
from stand_in_gpus import Machine

from ..conftest import spec_with
from .no_training import ENDS, make_no_training
from .stand_in_vllm import make_vllm

SERVED = {"mode": "server", "gpus": 1, "tensor_parallel_size": 1}


def options(plan):
    command = plan.command(1234, "own")
    return dict(zip(command[5:-1:2], command[6:-1:2], strict=True))


def test_the_server_is_what_the_trainer_asks_for():
    plan = ServerPlan(Path("/models/base"), Path("log"), 4, 2, 0.9, max_model_length=700)
    command = plan.command(1234, "own")
    assert command[1:5] == ["-m", "vllm.entrypoints.cli.main", "serve", "/models/base"]
    assert command[-1] == "--enable-scale-out"
    assert options(plan) == {
        "--host": "127.0.0.1",
        "--port": "1234",
        "--served-model-name": "own",
        "--tensor-parallel-size": "2",
        "--data-parallel-size": "2",
        "--gpu-memory-utilization": "0.9",
        "--weight-transfer-config": '{"backend":"nccl"}',
        "--logprobs-mode": "processed_logprobs",
        "--max-logprobs": "-1",
        "--generation-config": "vllm",
        "--seed": "0",
        "--middleware": "reward_ablation.training.around.launch.key.RequireKey",
        "--max-model-len": "700",
    }
    assert "--data-parallel-size" not in options(ServerPlan(Path("m"), Path("log"), 2, 2, 0.9, 700))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", "the server printed nothing"),
        ("INFO 11-22 02:11:11 [api.py:7] loading\n\n", "loading"),
        (
            "(EngineCore pid=7) ERROR 11-22 02:11:11 [core.py:700] ValueError: no room for the key-value cache\n"
            "(EngineCore pid=7) ERROR 11-22 02:11:11 [core.py:700]   File 'core.py'\n"
            "(APIServer pid=5) RuntimeError: Engine core initialization failed. See root cause above. Failed core: {}\n"
            "nanny: bye\n",
            "ValueError: no room for the key-value cache",
        ),
        (
            "\x1b[31mtorch.OutOfMemoryError: CUDA out of memory\x1b[0m\nclean up\n",
            "torch.OutOfMemoryError: CUDA out of m",
        ),
        ("vllm: error: unrecognized arguments: --seeds 0\n", "vllm: error: unrecognized arguments: --seeds 0"),
    ],
)
def test_the_line_that_tells(tmp_path, log, told):
    (tmp_path / "vllm.log").write_text(log)
    said = last_words(tmp_path / "vllm.log")
    assert said.startswith(told)
    assert said.endswith(f"; the server's log: {tmp_path / 'vllm.log'}")


def test_the_environment_tells_a_runs_processes_of_their_server():
    server = Server("http://127.0.0.1:5", 6, "own", 7.5, "secret")
    assert Server.of_environment(server.environment()) == server
    assert Server.of_environment({}) is None
    assert "secret" not in str(server)


@pytest.fixture
def machine(tmp_path):
    """A machine with three GPUs."""
    made = Machine(tmp_path / "machine", 3)
    yield made
    made.clear()


@pytest.fixture
def packages(tmp_path):
    """PYTHONPATH of a vLLM that is a stand-in, and of no training."""
    path = make_vllm(tmp_path / "packages")["PYTHONPATH"]
    make_no_training(tmp_path / "packages")
    return {"PYTHONPATH": path}


def test_the_training_command_starts_the_server_on_gpus_of_its_own(machine, packages, command, demo_model, tmp_path):
    run = tmp_path / "run" / "seed0"
    served = [*command(spec_with(gpus=1, vllm=SERVED), run), "--vllm-memory-percent", "85", "--vllm-sleep", "0"]
    with take(machine.locks[0]):
        result = subprocess.run(
            served, capture_output=True, text=True, timeout=120, env=machine.environment(**packages)
        )
    assert result.returncode == 1
    assert ENDS in result.stderr  # the training process beside the server
    server = json.loads((run / "vllm.log").read_text().splitlines()[0])
    assert server["gpus"] == "2"  # the last of the two that the run has claimed
    assert server["arguments"][:2] == ["serve", str(demo_model)]
    options = dict(zip(server["arguments"][2::2], server["arguments"][3::2], strict=False))
    assert options["--gpu-memory-utilization"] == "0.85"
    assert 16 < int(options["--max-model-len"]) < 100  # the longest prompt, and a completion
    for lock in (*machine.locks, run / ".lock"):
        take(lock).release()


@pytest.mark.slow
@pytest.mark.long
def test_several_processes_have_a_launcher_beside_the_server(packages, command, tmp_path):
    run = tmp_path / "run" / "seed0"
    served = command(spec_with(gpus=0, processes=2, vllm=SERVED), run)
    result = subprocess.run(served, capture_output=True, text=True, timeout=600, env={**os.environ, **packages})
    assert result.returncode == 1
    assert ENDS in result.stderr
    assert [path.name for path in sorted((tmp_path / "packages").glob("rank*"))] == ["rank0", "rank1"]
    take(run / ".lock").release()


def test_a_finished_run_needs_no_server(packages, command, demo_model, problems, tmp_path):
    spec, run = spec_with(vllm=SERVED), tmp_path / "run"
    served = command(spec, run)
    seed = {"seed": spec.pop("seed"), "spec": spec, "code": served[served.index("--code") + 1]}
    inputs = {"model": sha256(demo_model / "model.json"), "problems": sha256(problems)}
    write_json({**seed, "inputs": inputs, "files": {}}, run / ".run.json")
    result = subprocess.run(served, capture_output=True, text=True, timeout=120, env={**os.environ, **packages})
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"train: {run} is trained already; to train it again, delete the folder\n"
    assert (run / "run.json").exists()  # as Snakemake wants it
    assert not (run / "vllm.log").exists()
