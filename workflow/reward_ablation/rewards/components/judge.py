"""Score of a language model that judges the completion: an endpoint of OpenAI's form."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveFloat, PositiveInt

from reward_ablation.rewards.arguments import OF_TRAINER
from reward_ablation.rewards.asking.ask import Asked, ask_all
from reward_ablation.rewards.asking.endpoint import Endpoint
from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.judging.answer import request_body, score_in
from reward_ablation.rewards.judging.template import COMPLETION, FENCE, check_columns, fields_of, read_template, render
from reward_ablation.rewards.parameters import FilePath, NotInSpec
from reward_ablation.system.errors import StudyError


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
    """The score that a language model gives to a completion; None where the model gives no score in the range.

    Parameters
    ----------
    model : str
        Name of the judge, as the endpoint calls it.
    template : str
        File with the prompt. `{completion}`, `{question}`, `{answer}` and the name of any other column stand for the
        column's value, `{fence}` for a word that no value contains, and `{{` for a brace. The file counts by its
        content.
    endpoint : str
        Base URL, such as `http://localhost:8000/v1`. Not in a run's key.
    api_key : str, optional
        Written as `{env: NAME}`. Not in a run's key.
    low, high : float
        Range of the score. A score outside the range counts as no answer.
    max_tokens : int
        Largest number of tokens in the judge's answer, including what a reasoning judge thinks before it.
    temperature : float
        Sampling temperature of the judge, at least 0.
    extra_body : dict, optional
        Further fields of the request.
    concurrency : int
        Number of requests that each process may have in flight. Not in a run's key.
    retries : int
        Number of further attempts after a failed request. Not in a run's key.
    seconds : float
        Time limit of one request. Not in a run's key.

    Raises
    ------
    StudyError
        The template, the range or the endpoint is wrong, or the endpoint refuses the key or the model.
    PassingError
        The endpoint answers none of a batch's requests: without scores, training would go on without a signal.

    Notes
    -----
    Source of language models as judges: Zheng et al. 2023, arXiv 2306.05685, section 3. They report that judges favour
    the first position, long answers, and their own answers. A completion may also persuade its judge.
    """
    if not low < high:
        raise StudyError(f"low: {low} is not below high: {high}")
    where = Endpoint.checked(endpoint, api_key, concurrency, retries, seconds)
    text = read_template(template)
    fields = fields_of(text)
    check_columns(fields, [name for name in columns if name not in OF_TRAINER])

    def body(prompt: str) -> dict[str, Any]:
        return request_body(model, prompt, low, high, max_tokens, temperature, extra_body or {})

    rows = _rows(fields, {**columns, COMPLETION: completion_texts(completions)}, len(completions))
    asked = ask_all(
        [body(render(text, row)) for row in rows],
        where,
        lambda content: score_in(content, low, high),
        digest_of([body(""), text]),
    )
    _log(columns, model, asked)
    return asked.scores


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _rows(fields: list[str], columns: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Values of the fields for each completion."""
    names = [name for name in fields if name != FENCE]
    return [{name: columns[name][place] for name in names} for place in range(count)]


def _log(columns: dict[str, Any], model: str, asked: Asked) -> None:
    """Have the trainer log the share of completions without an answer."""
    log_metric = columns.get("log_metric")
    if log_metric and asked.scores:
        log_metric(f"judge/unanswered/{model}", asked.scores.count(None) / len(asked.scores))
