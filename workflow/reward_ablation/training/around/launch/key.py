"""The key of a run's vLLM server: other users of the machine reach the server's port, and must not use the server.

vLLM's own key (VLLM_API_KEY) guards only what begins with /v1, /v2, /inference or /cohere. It leaves open the endpoints
that take weights, and those of vLLM's development mode, which TRL needs. So the server gets a middleware of ours, and
TRL's client gets the key. `client_with` changes a part of TRL; `tests/training/test_trl.py` pins it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

#: Variable by which the server's process knows its key. A key on a command line would be shown by `ps` to everybody.
KEY = "REWARD_ABLATION_VLLM_KEY"
#: What anybody may ask: whether the server is up. TRL's client asks without a key.
OPEN = "/health"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def new_key() -> str:
    """A random key of 256 bits."""
    return secrets.token_hex(32)


def header(key: str) -> dict[str, str]:
    """The header by which a request shows the key."""
    return {"Authorization": f"Bearer {key}"}


class RequireKey:
    """ASGI middleware that answers requests without the key with status 401.

    Raises
    ------
    KeyError
        The process was started without a key: a server must not start then.
    """

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
        given = [value for name, value in headers if name == b"authorization"]
        return len(given) == 1 and secrets.compare_digest(given[0], self._expected)


@contextmanager
def client_with(key: str | None) -> Iterator[None]:
    """Have TRL make clients that show the key with each request, as long as the block lasts; None: no server."""
    if key is None:
        yield
        return
    from trl.generation import vllm_generation

    shown = header(key)

    class ClientWithKey(vllm_generation.VLLMClient):
        """Shows the key from its first request on, which comes after this check."""

        def check_server(self, *arguments: Any, **options: Any) -> None:
            self.session.headers.update(shown)
            self.session.trust_env = False  # a user's .netrc would take the place of the header
            super().check_server(*arguments, **options)

    original = vllm_generation.VLLMClient
    vllm_generation.VLLMClient = ClientWithKey  # type: ignore[misc]
    try:
        yield
    finally:
        vllm_generation.VLLMClient = original  # type: ignore[misc]
