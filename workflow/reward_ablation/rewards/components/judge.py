"""Score of a language model that judges the completion: an endpoint of OpenAI's form."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveFloat, PositiveInt

from reward_ablation.rewards.arguments import OF_TRAINER
from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.endpoint import Endpoint, ask_all
from reward_ablation.rewards.judge_messages import (
    COMPLETION,
    FENCE,
    check_columns,
    fields_of,
    read_template,
    render,
    request_body,
    score_in,
)
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

    values = {**columns, COMPLETION: completion_texts(completions)}
    rows = [{name: values[name][row] for name in fields if name != FENCE} for row in range(len(completions))]
    digest = hashlib.sha256(json.dumps([body(""), text], sort_keys=True).encode()).hexdigest()
    bodies = [body(render(text, row)) for row in rows]
    scores = ask_all(bodies, where, lambda content: score_in(content, low, high), digest)
    if scores and (log_metric := columns.get("log_metric")):  # passed by the trainer
        log_metric(f"judge/unanswered/{model}", scores.count(None) / len(scores))
    return scores
