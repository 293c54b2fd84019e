"""Requests for completions, and the completions, in the same form for every backend.

`evaluate` makes the requests, `generate` answers them by transformers or vLLM, and `score` grades the completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.sampling.draws import stream_seed


@dataclass(frozen=True)
class Request:
    """One completion to generate: greedy (sample 0), or one of a question's samples."""

    problem_id: str
    mode: Literal["greedy", "sampled"]
    sample: int
    prompt: list[int]  # token ids


@dataclass(frozen=True)
class Completion:
    """Token ids up to and including the end token, as in TRL; `truncated`: none came before the length limit."""

    ids: list[int]
    truncated: bool


def list_requests(problem_ids: Iterable[str], prompts: Iterable[list[int]], evaluation: Evaluation) -> list[Request]:
    """Requests in the order of the rows: by problem, the greedy one first, then the samples."""
    requests = []
    for problem_id, prompt in zip(problem_ids, prompts, strict=True):
        if evaluation.greedy:
            requests.append(Request(problem_id, "greedy", 0, prompt))
        requests += [Request(problem_id, "sampled", sample, prompt) for sample in range(evaluation.samples)]
    return requests


def request_seed(request: Request, seed: int) -> int:
    """Seed in [0, 2^63) of one request, from the evaluation's seed, the problem's id and the sample.

    Each request has its own random stream. Other questions, more samples or another batch size do not change it. Every
    model is sampled with the same streams.
    """
    return stream_seed(seed, request.problem_id, request.sample)


def cut_at_end(ids: list[int], end_tokens: Sequence[int]) -> Completion:
    """Completion up to its first end token; truncated if it has none."""
    for position, token in enumerate(ids):
        if token in end_tokens:
            return Completion(ids[: position + 1], truncated=False)
    return Completion(ids, truncated=True)
