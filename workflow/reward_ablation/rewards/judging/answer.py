"""The request to a judge, and the reading of the judge's answer."""

from __future__ import annotations

import json
import math
from typing import Any


class NoScore(ValueError):
    """An answer has no score in the range. The message says why."""


def request_body(
    model: str, prompt: str, low: float, high: float, max_tokens: int, temperature: float, extra_body: dict[str, Any]
) -> dict[str, Any]:
    """Body of a request to `/chat/completions`: one message, and a JSON schema for the answer.

    The schema has the range of the score, from `low` to `high`. `extra_body` has further fields of the request, which
    cannot replace the fields that this function sets.
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
    """Text of a chat completion, with the numbers of tokens of the prompt and of the answer.

    NoScore if the response is not a chat completion with a text. A number that the server does not report is 0.
    """
    written = _parsed(response)
    try:
        content = written["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise NoScore("the response is not a chat completion") from None
    if not isinstance(content, str):
        raise NoScore("the response has no text")
    usage = written.get("usage")
    prompt, answer = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    return content, prompt, answer


def score_in(content: str, low: float, high: float) -> float:
    """The score of an answer `{"score": number}`.

    NoScore if the answer is not JSON, has anything but one score, or the score is not a number in [low, high].
    """
    answer = _parsed(content)
    if not isinstance(answer, dict) or list(answer) != ["score"]:
        raise NoScore("the answer is not an object with a score alone")
    score = answer["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise NoScore("the score is not a number")
    if not low <= score <= high:  # before `float`, which refuses large integers; false for NaN
        raise NoScore("the score is out of range")
    return float(score)


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):  # also for bytes that are not text
        raise NoScore("the answer is not JSON") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which each key occurs once. An answer with two scores has no score."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _count(usage: Any, name: str) -> int:
    """A number of tokens; 0 if the server does not report the number."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return int(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else 0
