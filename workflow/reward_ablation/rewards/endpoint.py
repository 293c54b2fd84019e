"""Requests of the component `judge` to an endpoint of OpenAI's form: each distinct one once, several at a time.

The time of a request, the size of its response and the host that gets the key are limited. Nothing here decides a
score, so a change trains nothing again; `components.judge` has what decides scores. The `openai` client is not used:
its retries draw their pauses from Python's global random generator, which training uses, it reads variables of the
environment that are meant for another host, and it limits neither the time nor the size of a response that comes byte
by byte.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from random import SystemRandom
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from reward_ablation.rewards.asynchronous import run
from reward_ablation.rewards.request_records import KeptAnswers, count, folders
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.system.exit_status import BUSY
from reward_ablation.system.masking import masked
from reward_ablation.system.plain_values import printable

if TYPE_CHECKING:
    import httpx

#: Largest response, in bytes.
LARGEST = 1 << 20
#: Statuses of a request that is refused because of its content, such as a prompt that is too long for the model.
REFUSED = (400, 413, 422)
#: Seconds: the mean pause before the first retry, which doubles with each retry; the longest such pause; and the
#: longest pause that a server may ask for.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 0.5, 30.0, 60.0

#: A separate generator, because training uses Python's global generator, which must not advance here.
_random = SystemRandom()


class Answer(NamedTuple):
    """What a response says: a score, or the reason why there is none; and the numbers of tokens, 0 if unknown."""

    score: float | None
    reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


Reader = Callable[[bytes], Answer]


class Failure(Exception):
    """A request has no answer. `again`: another attempt may get one, `after` seconds where the server says so."""

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

    def shown(self, written: str) -> str:
        """The beginning of a response, for a message. The key is hidden, because a server may repeat it."""
        return printable(" ".join(masked(written, self.key or "", "(hidden)").split()), 200)


def ask_all(bodies: list[dict[str, Any]], endpoint: Endpoint, read: Reader, judge: str) -> list[float | None]:
    """Scores of requests to one model; None where there is no answer, PassingError where there is none at all.

    `judge`, a digest of what the requests share and what decides their scores, names the folder of kept answers.
    """
    if not bodies:
        return []
    digests = [hashlib.sha256(json.dumps([judge, body], sort_keys=True).encode()).hexdigest()[:32] for body in bodies]
    folder, counts = folders()
    batch = _Batch(endpoint, read, _kept(folder / judge[:16]) if folder else KeptAnswers(None))
    batch.kept.refresh()
    distinct = dict(zip(digests, bodies, strict=True))
    waiting = {digest: body for digest, body in distinct.items() if batch.kept.get(digest) is None}
    batch.counts["kept"] = len(distinct) - len(waiting)
    try:
        if waiting:
            run(batch.ask(waiting))
    finally:
        batch.counts["unanswered"] = batch.reasons.total()
        if counts:
            count(counts, bodies[0]["model"], batch.counts)
    if batch.reasons:
        reasons = ", ".join(f"{reason} ({number})" for reason, number in batch.reasons.most_common(3))
        if batch.unreachable == len(waiting):
            raise PassingError(
                f"endpoint: answered none of {len(waiting)} requests: {reasons}; check that the endpoint runs and can "
                "be reached from here, then run the same command again"
            )
        print(f"judge: {batch.reasons.total()} of {len(waiting)} requests without an answer: {reasons}", flush=True)
    return [batch.kept.get(digest) for digest in digests]


_kept = cache(KeptAnswers)  # one for each folder


@dataclass
class _Batch:
    """The requests of one call, and what came of them."""

    endpoint: Endpoint
    read: Reader
    kept: KeptAnswers
    reasons: Counter[str] = field(default_factory=Counter)  # how many requests had no answer, by reason
    counts: Counter[str] = field(default_factory=Counter)  # counts of `request_records.COUNTS`
    unreachable: int = 0  # requests to which the server gave no response, or said that it was busy

    async def ask(self, bodies: dict[str, dict[str, Any]]) -> None:
        """Send requests, given by their digest. A request without an answer gets no score, but a reason."""
        import httpx  # here, because a plan of a study needs none

        waiting = iter(bodies.items())
        settings = {"headers": self.endpoint.headers, "verify": _certificates(), "timeout": None}

        async def ask_in_turn() -> None:  # with its own client: a shared one would look through all its connections
            async with httpx.AsyncClient(**settings) as client:
                for digest, body in waiting:
                    try:
                        self.kept.put(digest, await self._with_retries(client, body))
                    except Failure as failure:
                        self.reasons[str(failure)] += 1
                        self.unreachable += isinstance(failure, Unreachable)

        tasks = [asyncio.ensure_future(ask_in_turn()) for _ in range(min(self.endpoint.concurrency, len(bodies)))]
        try:
            await asyncio.gather(*tasks)
        finally:  # after a permanent error, or an interruption, no further request is sent
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _with_retries(self, client: httpx.AsyncClient, body: dict[str, Any]) -> float:
        """Score of one request. If no attempt gives a score, the last Failure is raised."""
        attempt = 0
        while True:
            self.counts["requests"] += 1
            self.counts["retries"] += attempt > 0
            try:
                answer = self.read(await _send(client, self.endpoint, body))
                self.counts["prompt_tokens"] += answer.prompt_tokens
                self.counts["completion_tokens"] += answer.completion_tokens
                if answer.score is None:
                    raise Failure(answer.reason)
                return answer.score
            except Failure as failure:
                if not failure.again or attempt == self.endpoint.retries:
                    raise
                pause = pause_before(attempt, failure.after)
            await asyncio.sleep(pause)
            attempt += 1


def pause_before(retry: int, asked: float | None) -> float:
    """Seconds before retry 0, 1, …: what the server asks for within a limit, else an exponential pause with jitter."""
    # Drawn between 0 and twice its mean, so that requests that failed together are not sent again together.
    if asked is not None:
        return min(asked, LONGEST_ASKED) + _random.uniform(0.0, FIRST_PAUSE)
    return _random.uniform(0.0, min(LONGEST_PAUSE, 2 * FIRST_PAUSE * 2.0 ** min(retry, 30)))


@cache
def _certificates() -> Any:
    """The certificates for checking servers. They are loaded once: loading takes longer than a short request."""
    import httpx

    if find_spec("sniffio") is None:
        # Otherwise httpcore searches all import folders for it at each event: twice as long as the rest of a request.
        sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]
    return httpx.create_ssl_context()


async def _send(client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    """The body of the response to one request; StudyError where no attempt would help, else Failure without a body."""
    import httpx

    content = json.dumps(body).encode()  # in ASCII: a text with half a character (a surrogate) has no UTF-8
    try:
        # httpx limits the time between two bytes only.
        async with (
            asyncio.timeout(endpoint.seconds),
            client.stream("POST", endpoint.url, content=content) as response,
        ):
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise Failure("the response is compressed, although the request asked for no compression")
            written = bytearray()
            async for chunk in response.aiter_raw():
                written += chunk
                if len(written) > LARGEST:
                    raise Failure(f"the response is larger than {LARGEST} bytes")
    except TimeoutError:
        raise Unreachable(f"no response within {endpoint.seconds:g} seconds") from None
    except httpx.RequestError as error:
        raise Unreachable(f"no connection ({type(error).__name__})") from None
    received, said = bytes(written), endpoint.shown(written.decode("utf-8", "replace"))
    _check_status(response, endpoint, said)
    if _is_error(received):
        raise Unreachable(f"status 200 with an error: {said}")
    return received


def _is_error(written: bytes) -> bool:
    """Whether the body of a response is an error, which a provider may send with status 200."""
    try:
        content = json.loads(written)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and bool(content.get("error")) and not content.get("choices")


def _check_status(response: httpx.Response, endpoint: Endpoint, said: str) -> None:
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
            + endpoint.shown(response.headers.get("Location", "it does not say which"))
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
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
