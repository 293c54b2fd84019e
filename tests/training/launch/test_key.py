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

    asyncio.run(RequireKey(application)(scope, None, send))
    return said


def request(path: str, headers: list[tuple[bytes, bytes]], kind: str = "http") -> dict:
    return {"type": kind, "path": path, "method": "POST", "headers": headers}


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "lifespan"},  # the server's own start and end
        request("/health", []),
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
        ("/update_weights", []),  # which vLLM's own key leaves open
        ("/v1/models", [(b"authorization", b"Bearer other")]),
        ("/v1/models", [(b"authorization", b"own")]),
        ("/v1/models", [(b"authorization", b"Bearer own\xff")]),
        ("/v1/models", [(b"authorization", b"Bearer other"), (b"authorization", b"Bearer own")]),
        # Paths that are not quite the open one.
        ("/health/", []),
        ("//health", []),
        ("/health/../update_weights", []),
    ],
)
def test_others_are_not(path, headers, monkeypatch):
    start, body = answer(request(path, headers), monkeypatch)
    assert (start["type"], start["status"], body["body"]) == ("http.response.start", 401, b"")


def test_a_websocket_without_the_key_is_closed(monkeypatch):
    refused = answer(request("/v1/realtime", [], kind="websocket"), monkeypatch)
    assert refused == [{"type": "websocket.close", "code": 1008}]


def test_without_a_key_no_server_starts(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(KeyError, match=KEY):
        RequireKey(None)


def test_keys_are_long_and_never_the_same():
    first, second = new_key(), new_key()
    assert first != second
    assert len(first) == 64
    assert header("own") == {"Authorization": "Bearer own"}
