"""One request to an endpoint, with its bounds: time, size of the response, and the host that gets the key."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import BUSY
from reward_ablation.system.plain_values import printable

if TYPE_CHECKING:
    import httpx

#: Bytes of a response.
LARGEST = 1 << 20

#: Statuses of a request that is refused for what it holds, such as a prompt that is too long for the model.
REFUSED = (400, 413, 422)


class Failure(Exception):
    """A request has no answer: why, whether it may have one later, and after how many seconds the server says so."""

    def __init__(self, reason: str, again: bool = True, after: float | None = None):
        super().__init__(reason)
        self.again, self.after = again, after


class Unreachable(Failure):
    """The server gave no answer at all, or was busy."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go, and how."""

    url: str
    key: str | None = field(repr=False)
    concurrency: int
    retries: int
    seconds: float

    @classmethod
    def checked(cls, url: str, key: str | None, concurrency: int, retries: int, seconds: float) -> Endpoint:
        """An endpoint of a base URL; StudyError where the URL or the key cannot be used."""
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable or not url.isprintable() or " " in url or parts.query or parts.fragment or "@" in parts.netloc:
            raise StudyError(
                "endpoint: is no base URL; write it as http://host:8000/v1 or https://host/v1, without a user, a query "
                "or a fragment"
            )
        if key is not None and not (key.isascii() and key.isprintable() and key and " " not in key):
            raise StudyError("api_key: holds characters that no key has, such as spaces; look at the variable's value")
        return cls(f"{url.rstrip('/')}/chat/completions", key, concurrency, retries, seconds)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request. Compressed responses are not asked for: a small one may be huge."""
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json", **key}


@cache
def certificates() -> ssl.SSLContext:
    """The certificates that servers are checked by, loaded once: loading takes longer than a short request."""
    import httpx

    return httpx.create_ssl_context()


@cache
def _settle_sniffio() -> None:
    """Note that the module sniffio is not there, where it is not: httpcore looks for it again at each event.

    The search through all folders of imports takes twice the time of the rest of a request.
    """
    if find_spec("sniffio") is None:
        sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


def new_client(endpoint: Endpoint) -> httpx.AsyncClient:
    """A client for one request at a time. A shared one looks through all of its connections at each event."""
    import httpx

    _settle_sniffio()
    return httpx.AsyncClient(headers=endpoint.headers, verify=certificates(), timeout=None)


async def send(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    """Response to one request.

    Raises
    ------
    Failure
        There is no response, or one that is an error, too large or too late.
    StudyError
        The endpoint refuses the key, the model or the path, or sends requests elsewhere: so it would each time.
    """
    import httpx

    try:
        async with asyncio.timeout(endpoint.seconds), _posted(client, endpoint, body) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Failure("the response is compressed, which it was not asked to be")
            written = await _bounded(response)
    except TimeoutError:
        raise Unreachable(f"no response within {endpoint.seconds:g} seconds") from None
    except httpx.RequestError as error:
        raise Unreachable(f"no connection ({type(error).__name__})") from None
    _check_status(response, _shown(written, endpoint.key))
    return written


def _posted(
    client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]
) -> AbstractAsyncContextManager[httpx.Response]:
    """The response to a request. A text with half a character (a surrogate) is JSON, and is no UTF-8."""
    return client.stream("POST", endpoint.url, content=json.dumps(body).encode())


async def _bounded(response: httpx.Response) -> bytes:
    """A response's body; Failure where it is too large."""
    written = bytearray()
    async for chunk in response.aiter_raw():
        written += chunk
        if len(written) > LARGEST:
            raise Failure(f"the response is larger than {LARGEST} bytes")
    return bytes(written)


def _shown(written: bytes, key: str | None) -> str:
    """The beginning of a response, for a message. A server may repeat the key."""
    text = " ".join(written.decode("utf-8", "replace").split())
    return printable(text.replace(key, "(hidden)") if key else text, 200)


def _check_status(response: httpx.Response, said: str) -> None:
    """Refuse a response whose status is an error; `said` is the beginning of the response."""
    status = response.status_code
    if status == 200:
        return
    if status in BUSY or status >= 500:
        after = _retry_after(response.headers.get("Retry-After"))
        raise Unreachable(f"status {status}{': ' if said else ''}{said}", after=after)
    if status in REFUSED:
        raise Failure(f"status {status}: {said}", again=False)
    if 300 <= status < 400:
        raise StudyError(
            "endpoint: sends requests elsewhere, where the key may not go; give the URL that it sends them to: "
            + printable(response.headers.get("Location", "it does not say which"), 200)
        )
    raise StudyError(
        f"endpoint: answers with status {status}: {said}; look at the URL, which ends before /chat/completions, at the "
        "key and at the model's name"
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds of a header Retry-After, which has seconds or a date; None without one that can be read."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value.strip()[:9])
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
