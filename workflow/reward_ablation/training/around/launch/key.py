"""The key of a run's vLLM server. Other users of the machine can reach the server's port, but must not use the server.

vLLM's own key (VLLM_API_KEY) protects only paths that begin with /v1, /v2, /inference or /cohere. It leaves open the
endpoints that receive weights, and those of vLLM's development mode, which TRL needs. The server therefore gets a
middleware of ours, and TRL's client gets the key, by a change of a part of TRL that `tests/training/test_trl.py` pins.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

#: Environment variable with the key, for the server's process. `ps` would show a key on a command line to everybody.
KEY = "REWARD_ABLATION_VLLM_KEY"
#: Path that needs no key: whether the server is up. TRL's client asks this without a key.
OPEN = "/health"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def new_key() -> str:
    """A random key of 256 bits."""
    return secrets.token_hex(32)


def header(key: str) -> dict[str, str]:
    """HTTP header with the key, for a request."""
    return {"Authorization": f"Bearer {key}"}


class RequireKey:
    """ASGI middleware: status 401 without the key, except for `OPEN`. Without a key of its own, it does not start."""

    def __init__(self, app: Application):
        self.app = app
        self._expected = header(os.environ[KEY])["Authorization"].encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope.get("path") == OPEN or self._has_key(scope["headers"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    def _has_key(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        values = [value for name, value in headers if name == b"authorization"]
        return len(values) == 1 and secrets.compare_digest(values[0], self._expected)


@contextmanager
def client_with(key: str | None) -> Iterator[None]:
    """Let TRL create clients that send the key, if there is one, with each request, as long as the block lasts."""
    if key is None:
        yield
        return
    from trl.generation import vllm_generation

    with_key = header(key)

    class ClientWithKey(vllm_generation.VLLMClient):
        """Sends the key with every request: the first request is made by `check_server`."""

        def check_server(self, *arguments: Any, **options: Any) -> None:
            self.session.headers.update(with_key)
            self.session.trust_env = False  # a user's .netrc would replace the header
            super().check_server(*arguments, **options)

    original = vllm_generation.VLLMClient
    vllm_generation.VLLMClient = ClientWithKey  # type: ignore[misc]
    try:
        yield
    finally:
        vllm_generation.VLLMClient = original  # type: ignore[misc]
