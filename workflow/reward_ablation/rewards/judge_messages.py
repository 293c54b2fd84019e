"""Messages to and from a judge, a language model: the prompt from a template, the request, the reading of the answer.

They decide scores, unlike `endpoint`, which sends them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from reward_ablation.system.errors import StudyError

#: Two fields that are no columns of the data. `fence` is a word that no value contains, so that a completion cannot
#: forge this delimiter.
COMPLETION, FENCE = "completion", "fence"

#: Largest size of a template, in bytes.
LARGEST = 1 << 20

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def read_template(path: str) -> str:
    """Text of a template's file; StudyError if the file is missing, too large or not UTF-8."""
    try:
        with open(path, "rb") as file:
            written = file.read(LARGEST + 1)
    except OSError as error:
        raise StudyError(f"template: {path}: {error.strerror or error}; give the path of a text file") from None
    if len(written) > LARGEST:
        raise StudyError(f"template: {path}: more than {LARGEST} bytes; give a shorter text")
    try:
        return written.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"template: {path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None


def fields_of(template: str) -> list[str]:
    """Names of a template's fields, each once, in the order of their first appearance.

    StudyError if a field is not a name, such as `{question.x}`, if a brace has no partner, or if there is no field
    `{completion}`.
    """
    fields: dict[str, None] = {}
    for part in _PART.finditer(template):
        name = part[1]
        if name is None and part[0] in "{}":
            line = template.count("\n", 0, part.start()) + 1
            raise StudyError(f"template: line {line}: a single {part[0]}; write {part[0] * 2} for a brace of the text")
        if name is not None and not name.isidentifier():
            raise StudyError(
                f"template: {{{name[:60]}}} is not a field; a field is the name of a column, such as {{question}}; "
                "write {{ and }} for braces of the text"
            )
        if name is not None:
            fields[name] = None
    if COMPLETION not in fields:
        raise StudyError("template: has no field {completion}; the judge would not see what it judges")
    return list(fields)


def check_columns(fields: Collection[str], columns: Collection[str]) -> None:
    """Refuse a field that is neither a column of the data nor `completion` or `fence`."""
    for name in fields:
        if name not in (COMPLETION, FENCE, *columns):
            known = ", ".join(dict.fromkeys([COMPLETION, FENCE, *sorted(columns)]))
            raise StudyError(f"template: {{{name}}}: the data has no such column; fields: {known}")


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template with its fields filled in. Braces of a value stay as they are.

    A text is filled in as it is, None as an empty text, and any other value as JSON. `{fence}` is the beginning of the
    SHA-256 of all values, so that no value can contain it.
    """
    texts = {name: _text(value) for name, value in values.items()}
    digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()
    texts[FENCE] = digest[:16]

    def filled(part: re.Match[str]) -> str:
        return part[0][0] if part[1] is None else texts[part[1]]

    return _PART.sub(filled, template)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
