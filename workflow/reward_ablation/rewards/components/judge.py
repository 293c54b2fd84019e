"""Score of a language model that judges the completion: an endpoint of OpenAI's form.

The prompt from a template, the request and the reading of the answer are here, because they decide scores, unlike
`endpoint`, which sends the requests.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveFloat, PositiveInt

from reward_ablation.rewards.arguments import OF_TRAINER
from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.endpoint import Answer, Endpoint, ask_all
from reward_ablation.rewards.parameters import FilePath, NotInSpec
from reward_ablation.system.errors import StudyError

#: Two fields that are no columns of the data. No value contains `fence`, so that no completion can forge the delimiter.
COMPLETION, FENCE = "completion", "fence"

#: Largest size of a template, in bytes.
LARGEST = 1 << 20

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def judge(
    completions: list[Completion],
    *,
    model: str,
    template: FilePath,
    endpoint: NotInSpec[str],
    api_key: NotInSpec[str | None] = None,
    low: FiniteFloat = 0.0,
    high: FiniteFloat = 1.0,
    max_tokens: PositiveInt = 256,
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
    extra_body: dict[str, Any] | None = None,
    concurrency: NotInSpec[Annotated[int, Field(ge=1, le=1024)]] = 32,
    retries: NotInSpec[NonNegativeInt] = 5,
    seconds: NotInSpec[PositiveFloat] = 60.0,
    **columns: Any,
) -> list[float | None]:
    """The score that a language model gives to a completion; None without an answer, or without a score in the range.

    Parameters
    ----------
    model : str
        Name of the judge, as the endpoint calls it.
    template : str
        File with the prompt. `{completion}`, `{question}`, `{answer}` and the name of any other column stand for the
        column's value, `{fence}` for a word that no value contains, and `{{` for a brace. The file counts by its
        content.
    endpoint, api_key : str
        Base URL, such as `http://localhost:8000/v1`, and the key, written as `{env: NAME}`. Not in a run's key.
    low, high : float
        Range of the score. A score outside the range counts as no answer.
    max_tokens : int
        Largest number of tokens in the judge's answer, including what a reasoning judge thinks before it.
    temperature : float
        Sampling temperature of the judge, at least 0.
    extra_body : dict, optional
        Further fields of the request.
    concurrency, retries, seconds : int, int, float
        Requests that each process may have in flight, further attempts after a failed request, and time limit of one
        request. Not in a run's key.

    Notes
    -----
    Source of language models as judges: Zheng et al. 2023, arXiv 2306.05685, section 3. They report that judges favour
    the first position, long answers, and their own answers. A completion may also persuade its judge.
    """
    if not low < high:
        raise StudyError(f"low: {low} is not below high: {high}")
    where = Endpoint.checked(endpoint, api_key, concurrency, retries, seconds)
    text = read_template(template)
    shared = request_body(model, low, high, max_tokens, temperature, extra_body or {})
    prompts = prompts_of(text, {**columns, COMPLETION: completion_texts(completions)})
    bodies = [{**shared, "messages": [{"role": "user", "content": prompt}]} for prompt in prompts]
    scores = ask_all(bodies, where, lambda response: answer_in(response, low, high), digest_of(shared, text))
    if scores and (log_metric := columns.get("log_metric")):  # passed by the trainer
        log_metric(f"judge/unanswered/{model}", scores.count(None) / len(scores))
    return scores


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
    """Names of a template's fields, each once, in the order of their appearance; StudyError for a bad template."""
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


def prompts_of(template: str, columns: Mapping[str, Any]) -> list[str]:
    """The prompt of each row; StudyError if the template is wrong or asks for a column that the data does not have."""
    fields = fields_of(template)
    check_columns(fields, [name for name in columns if name not in (*OF_TRAINER, COMPLETION)])
    rows = range(len(columns[COMPLETION]))
    return [render(template, {name: columns[name][row] for name in fields if name != FENCE}) for row in rows]


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template with its fields filled in. Braces of a value stay as they are.

    A text is filled in as it is, None as an empty text, and any other value as JSON. `{fence}` is the beginning of the
    SHA-256 of all values, so that no value can contain it.
    """
    texts = {name: _text(value) for name, value in values.items()}
    digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()
    return template.format_map({**texts, FENCE: digest[:16]})  # safe, because all fields are names


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def request_body(
    model: str, low: float, high: float, max_tokens: int, temperature: float, extra_body: dict[str, Any]
) -> dict[str, Any]:
    """What the requests share: all but the message. `extra_body` cannot replace the fields that are set here."""
    schema = {
        "type": "object",
        "properties": {"score": {"type": "number", "minimum": low, "maximum": high}},
        "required": ["score"],
        "additionalProperties": False,
    }
    return {
        **extra_body,
        "model": model,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "response_format": {"type": "json_schema", "json_schema": {"name": "score", "strict": True, "schema": schema}},
    }


def digest_of(shared: dict[str, Any], template: str) -> str:
    """Digest of all that the requests of a judge share. The empty prompt stays: stored answers lie under the digest."""
    body = {**shared, "messages": [{"role": "user", "content": ""}]}
    return hashlib.sha256(json.dumps([body, template], sort_keys=True).encode()).hexdigest()


class NoScore(ValueError):
    """An answer has no score in the range. The message says why."""


def answer_in(response: bytes, low: float, high: float) -> Answer:
    """The score in a chat completion, which must be `{"score": number}`, and the tokens that the server reports."""
    try:
        written = _parsed(response)
        content = written["choices"][0]["message"]["content"]
    except NoScore as error:
        return Answer(None, str(error))
    except (KeyError, IndexError, TypeError):
        return Answer(None, "the response is not a chat completion")
    if not isinstance(content, str):
        return Answer(None, "the response has no text")
    tokens = [_count(written.get("usage"), name) for name in ("prompt_tokens", "completion_tokens")]
    try:
        return Answer(score_in(content, low, high), "", *tokens)
    except NoScore as error:
        return Answer(None, str(error), *tokens)


def score_in(content: str, low: float, high: float) -> float:
    """The score of an answer `{"score": number}` with a number in [low, high]; NoScore for any other answer."""
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
