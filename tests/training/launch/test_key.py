"""The key of a run's vLLM server: which requests pass, and who can see the key."""

from __future__ import annotations

import asyncio

import pytest

from reward_ablation.training.around.launch.key import KEY, RequireKey, header, new_key

OWN = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer own")]


def answer(scope: dict, monkeypatch) -> list[dict]:
    """What the middleware and an application that answers anything say to a request."""
    monkeypatch.setenv(KEY, "own")
    said: list[dict] = []

    async def application(scope, receive, send):
        await send({"type": "the application's"})

    async def send(message):
        said.append(message)

    async def receive():
        return {}

    asyncio.run(RequireKey(application)(scope, receive, send))
    return said


def request(path: str, headers: list[tuple[bytes, bytes]], method: str = "POST", kind: str = "http") -> dict:
    return {"type": kind, "path": path, "method": method, "headers": headers}


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "lifespan"},  # the server's own start and end
        request("/health", []),
        request("/v1/models", OWN),
        request("/update_weights", OWN),
        request("/v1/realtime", OWN, kind="websocket"),
    ],
)
def test_the_run_is_let_in(scope, monkeypatch):
    assert answer(scope, monkeypatch) == [{"type": "the application's"}]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/models", []),
        ("/inference/v1/generate", []),
        # What vLLM's own key leaves open.
        ("/update_weights", []),
        ("/init_weight_transfer_engine", []),
        ("/collective_rpc", []),
        ("/server_info", []),
        ("/metrics", []),
        # Keys that are none.
        ("/v1/models", [(b"authorization", b"Bearer other")]),
        ("/v1/models", [(b"authorization", b"Bearer ")]),
        ("/v1/models", [(b"authorization", b"own")]),
        ("/v1/models", [(b"authorization", b"Basic own")]),
        ("/v1/models", [(b"authorization", b"Bearer own\xff")]),
        ("/v1/models", [(b"authorization", b"Bearer other"), (b"authorization", b"Bearer own")]),
        ("/v1/models", [(b"x-api-key", b"own")]),
        # Paths that are not quite the open one.
        ("/health/", []),
        ("//health", []),
        ("/health/../update_weights", []),
    ],
)
def test_others_are_not(path, headers, monkeypatch):
    start, body = answer(request(path, headers, "OPTIONS"), monkeypatch)
    assert (start["type"], start["status"], body["body"]) == ("http.response.start", 401, b"")


def test_a_websocket_without_the_key_is_closed(monkeypatch):
    refused = answer(request("/v1/realtime", [], kind="websocket"), monkeypatch)
    assert refused == [{"type": "websocket.close", "code": 1008}]


def test_without_a_key_no_server_starts(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(KeyError, match=KEY):
        RequireKey(None)


def test_keys_are_long_and_never_the_same():
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {64}
    assert header("own") == {"Authorization": "Bearer own"}
