"""The vLLM server's command, messages from its log, and how processes are told of it."""

from pathlib import Path

import pytest

from reward_ablation.training.around.job import Server
from reward_ablation.training.around.launch.vllm_server import ServerPlan, last_words


def test_the_server_is_what_the_trainer_asks_for():
    command = ServerPlan(Path("/models/base"), Path("log"), 4, 2, 0.9, max_model_length=700).command(1234, "own")
    assert command[1:5] == ["-m", "vllm.entrypoints.cli.main", "serve", "/models/base"]
    assert command[-1] == "--enable-scale-out"
    assert dict(zip(command[5:-1:2], command[6:-1:2], strict=True)) == {
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
    assert "--data-parallel-size" not in ServerPlan(Path("m"), Path("log"), 2, 2, 0.9, 700).command(1234, "own")


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
