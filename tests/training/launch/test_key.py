"""The key of a run's vLLM server: which requests pass, and who can see the key."""

from __future__ import annotations

import asyncio

import pytest

from reward_ablation.training.around.launch.key import KEY, RequireKey, new_key

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
