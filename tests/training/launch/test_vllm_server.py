"""The vLLM server's command, messages from its log, how processes are told of it, and which requests pass."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reward_ablation.training.around.job import Server
from reward_ablation.training.around.launch.key import KEY, RequireKey, new_key
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


LOG = """INFO 11-22 02:11:11 [api.py:7] loading
\x1b[31m(EngineCore pid=7) ERROR 11-22 02:11:11 [core.py:700] ValueError: no room\x1b[0m
(EngineCore pid=7) ERROR 11-22 02:11:11 [core.py:700]   File 'core.py'
(APIServer pid=5) RuntimeError: Engine core initialization failed. See root cause above.
nanny: bye
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "the server printed nothing"), (LOG.split("\n")[0], "loading"), (LOG, "ValueError: no room")],
)
def test_the_line_that_tells(tmp_path, text, told):
    log = tmp_path / "vllm.log"
    log.write_text(text)
    assert last_words(log) == f"{told}; the server's log: {log}"


def test_the_environment_tells_a_runs_processes_of_their_server():
    server = Server("http://127.0.0.1:5", 6, "own", 7.5, "secret")
    assert Server.of_environment(server.environment()) == server
    assert Server.of_environment({}) is None
    assert "secret" not in str(server)


OWN, OTHER = (b"authorization", b"Bearer own"), (b"authorization", b"Bearer other")
LET_IN = ["the application's"]
REFUSED = ["http.response.start", "http.response.body"]


@pytest.mark.parametrize(
    ("kind", "path", "headers", "answer"),
    [
        ("lifespan", "", [], LET_IN),  # the server's own start and end
        ("http", "/health", [], LET_IN),
        ("http", "/update_weights", [(b"host", b"127.0.0.1"), OWN], LET_IN),
        ("websocket", "/v1/realtime", [OWN], LET_IN),
        ("http", "/update_weights", [], REFUSED),  # which vLLM's own key leaves open
        ("http", "/v1/models", [(b"authorization", b"Bearer own\xff")], REFUSED),
        ("http", "/v1/models", [OTHER, OWN], REFUSED),
        ("http", "/health/../update_weights", [], REFUSED),
        ("websocket", "/v1/realtime", [], ["websocket.close"]),
    ],
)
def test_only_the_run_is_let_in(kind, path, headers, answer, monkeypatch):
    monkeypatch.setenv(KEY, "own")
    said: list[dict] = []

    async def application(scope, receive, send):
        await send({"type": "the application's"})

    async def send(message):
        said.append(message)

    asyncio.run(RequireKey(application)({"type": kind, "path": path, "headers": headers}, None, send))
    assert [message["type"] for message in said] == answer
    assert said[0].get("status") == (401 if answer == REFUSED else None)


def test_no_server_starts_without_a_key_and_each_has_another(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(KeyError, match=KEY):
        RequireKey(None)
    assert len({new_key(), new_key()}) == 2
    assert len(new_key()) == 64
