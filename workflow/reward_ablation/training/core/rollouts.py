"""Rows of `rollouts.parquet`: every sampled completion with its scores, advantages and length."""

from __future__ import annotations

import math

import pyarrow as pa

from reward_ablation.training.core.generation.sampling_gap import SamplingGap


def rollout_schema(components: list[str]) -> pa.Schema:
    """Columns of the rollout log; one raw score and one share of the advantage per component.

    An advantage that is placed on some tokens stands here as its mean over all tokens of the completion. What vLLM
    sampled has a `sampling_gap` (mean absolute difference of the log-probabilities, in nats) and the share of tokens
    `sampling_corrected`; they are null where transformers generates.
    """
    return pa.schema(
        [
            ("step", pa.int64()),
            ("problem_id", pa.string()),
            ("rollout", pa.int64()),
            ("completion", pa.string()),
            ("tokens", pa.int64()),
            ("truncated", pa.bool_()),
            ("stop_reason", pa.string()),
            ("sampling_gap", pa.float64()),
            ("sampling_corrected", pa.float64()),
            ("total", pa.float64()),
            ("advantage", pa.float64()),
            *((f"score_{name}", pa.float64()) for name in components),
            *((f"advantage_{name}", pa.float64()) for name in components),
        ]
    )


def rollout_rows(
    step: int,
    problem_ids: list[str],
    rollouts: list[int],
    completions: list[str],
    tokens: list[int],
    truncated: list[bool],
    scores: dict[str, list[float]],
    weights: dict[str, float],
    advantages: list[float],
    shares: dict[str, list[float]],
    gap: SamplingGap | None = None,
) -> pa.Table:
    """One table row per completion; a score that a component did not give is null.

    `total` is the weighted sum of the scores, null where no weighted component gave one.
    """
    components = list(scores)
    none = [None] * len(completions)
    columns = {
        "step": [step] * len(completions),
        "problem_id": problem_ids,
        "rollout": rollouts,
        "completion": completions,
        "tokens": tokens,
        "truncated": truncated,
        "stop_reason": ["length" if cut else "stop" for cut in truncated],
        "sampling_gap": _known(gap.mean) if gap else none,
        "sampling_corrected": _known(gap.corrected) if gap else none,
        "total": [
            _total([scores[name][i] for name in components], [weights[name] for name in components])
            for i in range(len(completions))
        ],
        "advantage": advantages,
        **{f"score_{name}": _known(scores[name]) for name in components},
        **{f"advantage_{name}": shares[name] for name in components},
    }
    return pa.table(columns, schema=rollout_schema(components))


def _known(numbers: list[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers]


def _total(scores: list[float], weights: list[float]) -> float | None:
    terms = [weight * score for score, weight in zip(scores, weights, strict=True) if weight and not math.isnan(score)]
    return math.fsum(terms) if terms else None
