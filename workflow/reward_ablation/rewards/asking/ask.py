"""A batch of requests to an endpoint: each distinct request is sent once, several at a time, with retries."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from reward_ablation.rewards.asking.endpoint import Endpoint, Failure, Unreachable, new_client, send
from reward_ablation.rewards.asking.kept_answers import KeptAnswers
from reward_ablation.rewards.asking.surroundings import answers_folder, counts_folder
from reward_ablation.rewards.asking.usage import count
from reward_ablation.rewards.asynchronous import run
from reward_ablation.rewards.judging.answer import NoScore, content_of
from reward_ablation.system.errors import PassingError

if TYPE_CHECKING:
    import httpx

#: Seconds: the mean pause before the first retry, which doubles with each retry; the longest such pause; and the
#: longest pause that a server may ask for.
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 0.5, 30.0, 60.0

#: A separate generator, because training uses Python's global generator, which must not advance here.
_random = SystemRandom()

#: Reads a score from the text of an answer; NoScore if there is none.
Reader = Callable[[str], float]


@dataclass
class Asked:
    """Scores of a batch of requests."""

    scores: list[float | None] = field(default_factory=list)  # by request; None where there is no answer
    reasons: Counter[str] = field(default_factory=Counter)  # how many requests had no answer, by reason
    counts: Counter[str] = field(default_factory=Counter)  # counts of `usage.COUNTS`
    unreachable: int = 0  # requests to which the server gave no response, or said that it was busy


def ask_all(bodies: list[dict[str, Any]], endpoint: Endpoint, read: Reader, judge: str) -> Asked:
    """Ask an endpoint for scores, except for scores that are kept from earlier requests.

    All requests are to one model, and equal requests are sent once. `judge` is a digest of everything that the requests
    share and that decides their scores; it names the folder of kept answers. A PassingError is raised if no request of
    the batch has a score, because the endpoint answered none.
    """
    asked = Asked()
    if not bodies:
        return asked
    digests = [hashlib.sha256(json.dumps([judge, body], sort_keys=True).encode()).hexdigest()[:32] for body in bodies]
    distinct = dict(zip(digests, bodies, strict=True))
    folder = answers_folder()
    kept = _kept(folder / judge[:16]) if folder else None
    scores = _known(kept, distinct)
    asked.counts["kept"] = len(scores)
    waiting = {digest: body for digest, body in distinct.items() if digest not in scores}
    try:
        scores |= run(_ask(waiting, endpoint, read, kept, asked)) if waiting else {}
    finally:
        asked.counts["unanswered"] = sum(asked.reasons.values())
        if counts := counts_folder():
            count(counts, bodies[0]["model"], asked.counts)
    asked.scores = [scores.get(digest) for digest in digests]
    if asked.reasons:
        told = ", ".join(f"{reason} ({number})" for reason, number in asked.reasons.most_common(3))
        if asked.unreachable == len(distinct):
            raise PassingError(
                f"endpoint: answered none of {len(waiting)} requests: {told}; check that the endpoint runs and can "
                "be reached from here, then run the same command again"
            )
        print(f"judge: {sum(asked.reasons.values())} of {len(waiting)} requests without an answer: {told}", flush=True)
    return asked


@cache
def _kept(folder: Path) -> KeptAnswers:
    return KeptAnswers(folder)


def _known(kept: KeptAnswers | None, digests: dict[str, Any]) -> dict[str, float]:
    if kept is None:
        return {}
    kept.refresh()
    known = {digest: kept.get(digest) for digest in digests}
    return {digest: score for digest, score in known.items() if score is not None}


async def _ask(
    bodies: dict[str, dict[str, Any]], endpoint: Endpoint, read: Reader, kept: KeptAnswers | None, asked: Asked
) -> dict[str, float]:
    """Scores of requests by their digest. Requests without an answer are left out."""
    scores: dict[str, float] = {}
    waiting = iter(bodies.items())

    async def ask_in_turn() -> None:
        async with new_client(endpoint) as client:
            for digest, body in waiting:
                try:
                    scores[digest] = await _with_retries(client, endpoint, body, read, asked.counts)
                except Failure as failure:
                    asked.reasons[str(failure)] += 1
                    asked.unreachable += isinstance(failure, Unreachable)
                    continue
                if kept:
                    kept.put(digest, scores[digest])

    tasks = [asyncio.ensure_future(ask_in_turn()) for _ in range(min(endpoint.concurrency, len(bodies)))]
    try:
        await asyncio.gather(*tasks)
    except BaseException:  # a permanent error, or an interruption: send no further request
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return scores


async def _with_retries(
    client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], read: Reader, counts: Counter[str]
) -> float:
    """Score of one request. If no attempt gives a score, the last Failure is raised."""
    for attempt in range(endpoint.retries + 1):
        counts["requests"] += 1
        counts["retries"] += attempt > 0
        try:
            return await _score(client, endpoint, body, read, counts)
        except Failure as failure:
            if not failure.again or attempt == endpoint.retries:
                raise
            pause = pause_before(attempt, failure.after)
        await asyncio.sleep(pause)
    raise AssertionError("a loop of at least one attempt")


async def _score(
    client: httpx.AsyncClient, endpoint: Endpoint, body: dict[str, Any], read: Reader, counts: Counter[str]
) -> float:
    try:
        content, prompt_tokens, completion_tokens = content_of(await send(client, endpoint, body))
        counts["prompt_tokens"] += prompt_tokens
        counts["completion_tokens"] += completion_tokens
        return read(content)
    except NoScore as error:
        raise Failure(str(error)) from None


def pause_before(retry: int, asked: float | None) -> float:
    """Seconds before a retry: what the server asks for within a limit, else an exponential pause with jitter.

    The pause is drawn between 0 and twice its mean, so that requests that failed together are not sent again together.
    Retries are numbered from 0. `asked` is what the server asks for, in seconds.
    """
    if asked is not None:
        return min(asked, LONGEST_ASKED) + _random.uniform(0.0, FIRST_PAUSE)
    return _random.uniform(0.0, min(LONGEST_PAUSE, 2 * FIRST_PAUSE * 2.0 ** min(retry, 30)))
