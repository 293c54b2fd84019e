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


ENGINE = "(EngineCore pid=7) ERROR 11-22 02:11:11 [core.py:700]"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "the server printed nothing"),
        (["INFO 11-22 02:11:11 [api.py:7] loading", ""], "loading"),
        (
            [
                f"{ENGINE} ValueError: no room",
                f"{ENGINE}   File 'core.py'",
                "(APIServer pid=5) RuntimeError: Engine core initialization failed. See root cause above.",
                "nanny: bye",
            ],
            "ValueError: no room",
        ),
        (["\x1b[31mtorch.OutOfMemoryError: CUDA out\x1b[0m", "clean up"], "torch.OutOfMemoryError: CUDA out"),
    ],
)
def test_the_line_that_tells(tmp_path, lines, told):
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(lines))
    assert last_words(log) == f"{told}; the server's log: {log}"


def test_the_environment_tells_a_runs_processes_of_their_server():
    server = Server("http://127.0.0.1:5", 6, "own", 7.5, "secret")
    assert Server.of_environment(server.environment()) == server
    assert Server.of_environment({}) is None
    assert "secret" not in str(server)
