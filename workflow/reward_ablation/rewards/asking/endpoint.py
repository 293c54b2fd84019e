"""One request to an endpoint. Its time, the size of its response and the host that gets the key are limited."""

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
from reward_ablation.system.masking import masked
from reward_ablation.system.plain_values import printable

if TYPE_CHECKING:
    import httpx

#: Largest response, in bytes.
LARGEST = 1 << 20

#: Statuses of a request that is refused because of its content, such as a prompt that is too long for the model.
REFUSED = (400, 413, 422)


class Failure(Exception):
    """A request has no answer. The message says why.

    `again` says whether another attempt may get an answer, and `after` is the number of seconds after which the server
    asks to try again.
    """

    def __init__(self, reason: str, again: bool = True, after: float | None = None):
        super().__init__(reason)
        self.again, self.after = again, after


class Unreachable(Failure):
    """The server gave no answer at all, or was busy."""


@dataclass(frozen=True)
class Endpoint:
    """Where requests go, and with which limits."""

    url: str  # of the requests; ends in /chat/completions
    key: str | None = field(repr=False)
    concurrency: int  # number of requests in flight, at most
    retries: int  # number of further attempts after a failed request
    seconds: float  # time limit of one request

    @classmethod
    def checked(cls, url: str, key: str | None, concurrency: int, retries: int, seconds: float) -> Endpoint:
        """The endpoint of a base URL; StudyError if the URL or the key cannot be used."""
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable or not url.isprintable() or " " in url or parts.query or parts.fragment or "@" in parts.netloc:
            raise StudyError(
                "endpoint: is not a base URL; write http://host:8000/v1 or https://host/v1, without a user, a query "
                "or a fragment"
            )
        if key is not None and not (key.isascii() and key.isprintable() and key and " " not in key):
            raise StudyError("api_key: has characters that no key has, such as spaces; check the variable's value")
        return cls(f"{url.rstrip('/')}/chat/completions", key, concurrency, retries, seconds)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request. They ask for no compression, because a small compressed response may be huge."""
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json", **key}


@cache
def certificates() -> ssl.SSLContext:
    """The certificates for checking servers. They are loaded once: loading takes longer than a short request."""
    import httpx

    return httpx.create_ssl_context()


@cache
def _settle_sniffio() -> None:
    """If the module sniffio is not installed, mark it as missing: otherwise httpcore searches for it at each event.

    The search through all import folders takes twice as long as the rest of a request.
    """
    if find_spec("sniffio") is None:
        sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


def new_client(endpoint: Endpoint) -> httpx.AsyncClient:
    """A client for one request at a time. A shared client would look through all its connections at each event."""
    import httpx

    _settle_sniffio()
    return httpx.AsyncClient(headers=endpoint.headers, verify=certificates(), timeout=None)


async def send(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    """Send one request and return the body of the response.

    A Failure is raised if there is no response, or if it is an error, too large, too late or compressed. A StudyError
    is raised if the endpoint refuses the key, the model or the path, or redirects requests: another attempt would not
    help.
    """
    import httpx

    try:
        async with asyncio.timeout(endpoint.seconds), _posted(client, endpoint, body) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Failure("the response is compressed, although the request asked for no compression")
            written = await _bounded(response)
    except TimeoutError:
        raise Unreachable(f"no response within {endpoint.seconds:g} seconds") from None
    except httpx.RequestError as error:
        raise Unreachable(f"no connection ({type(error).__name__})") from None
    _check_status(response, _shown(written.decode("utf-8", "replace"), endpoint.key), endpoint.key)
    return written


def _posted(
    client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]
) -> AbstractAsyncContextManager[httpx.Response]:
    """Post a request. The body is made here, in ASCII: a text with half a character (a surrogate) has no UTF-8."""
    return client.stream("POST", endpoint.url, content=json.dumps(body).encode())


async def _bounded(response: httpx.Response) -> bytes:
    """A response's body; Failure if it is too large."""
    written = bytearray()
    async for chunk in response.aiter_raw():
        written += chunk
        if len(written) > LARGEST:
            raise Failure(f"the response is larger than {LARGEST} bytes")
    return bytes(written)


def _shown(written: str, key: str | None) -> str:
    """The beginning of a response, for a message. The key is hidden, because a server may repeat it."""
    return printable(" ".join(masked(written, key or "", "(hidden)").split()), 200)


def _check_status(response: httpx.Response, said: str, key: str | None) -> None:
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
            "endpoint: redirects requests, and the key is not sent to another URL; give the URL of the redirect: "
            + _shown(response.headers.get("Location", "it does not say which"), key)
        )
    raise StudyError(
        f"endpoint: answers with status {status}: {said}; check the URL (without /chat/completions), the key and the "
        "model's name"
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds that a header Retry-After asks for, as seconds or as a date; None if it is missing or unreadable."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value.strip()[:9])
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
