"""What a judge is asked for, and how its answer is read."""

from __future__ import annotations

import json
import math
from typing import Any


class NoScore(ValueError):
    """An answer has no score in the range; the message says why."""


def request_body(
    model: str, prompt: str, low: float, high: float, max_tokens: int, temperature: float, extra_body: dict[str, Any]
) -> dict[str, Any]:
    """Body of a request to `/chat/completions`: one message, and a JSON schema for the answer.

    The own fields win over those of `extra_body`.
    """
    schema = {
        "type": "object",
        "properties": {"score": {"type": "number", "minimum": low, "maximum": high}},
        "required": ["score"],
        "additionalProperties": False,
    }
    return {
        **extra_body,
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": temperature,
        "response_format": {"type": "json_schema", "json_schema": {"name": "score", "strict": True, "schema": schema}},
    }


def content_of(response: bytes) -> tuple[str, int, int]:
    """Text of a completion of chat, and its tokens: those of the prompt and those of the answer.

    Raises
    ------
    NoScore
        The response is no completion of chat with a text.
    """
    written = _parsed(response)
    try:
        content = written["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise NoScore("the response is no completion of chat") from None
    if not isinstance(content, str):
        raise NoScore("the response has no text")
    usage = written.get("usage")
    prompt, answer = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    return content, prompt, answer


def score_in(content: str, low: float, high: float) -> float:
    """The score of an answer `{"score": number}`, with nothing else in it and in [low, high]; NoScore for others."""
    answer = _parsed(content)
    if not isinstance(answer, dict) or list(answer) != ["score"]:
        raise NoScore("the answer is no object with a score alone")
    score = answer["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise NoScore("the score is no number")
    if not low <= score <= high:  # before `float`, which refuses large integers; false for NaN
        raise NoScore("the score is out of range")
    return float(score)


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):  # bytes that are no text, too
        raise NoScore("the answer is no JSON") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each key once: with two scores none of them is the answer."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _count(usage: Any, name: str) -> int:
    """A number of tokens, 0 where a server does not say it."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return int(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else 0
