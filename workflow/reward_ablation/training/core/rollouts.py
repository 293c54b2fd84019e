"""Rows of `rollouts.parquet`: every sampled completion with its scores, advantages and length.

`trainer` makes them for each generation, and `reward_ablation.trl` for runs of TRL's own trainer;
`training.around.finish` joins them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

#: Column of what components logged by `log_extra`, a JSON object {component: {column: value}} for each completion. Only
#: batches in which something was logged have it, so that the files of other runs stay as they are. It is one column,
#: because the names of the logged columns are known only when they are logged, and values may be of several types.
EXTRA = pa.field("extra", pa.string())


def rollout_schema(components: list[str]) -> pa.Schema:
    """Columns of the rollout log, with one raw score and one part of the advantage per component.

    An advantage on some tokens only is logged as its mean over all tokens of the completion. The columns of
    `sampling_gap` are null where transformers generates, and where TRL masks all tokens of the completion.
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


def rollout_table(
    columns: dict[str, Any], scores: dict[str, list[float]], parts: dict[str, list[float]], weights: dict[str, float]
) -> pa.Table:
    """One row per completion, with null for no score, by `scores`, raw, and `parts` of the advantage of each component.

    `total` is the weighted sum of scores, null where no component with a weight gave one. `columns` have no component.
    Those of `sampling_gap` and `EXTRA` may be missing.
    """
    none = [None] * len(columns["completion"])
    rows = {
        **columns,
        "stop_reason": ["length" if cut else "stop" for cut in columns["truncated"]],
        **{name: _known(columns[name]) if name in columns else none for name in ("sampling_gap", "sampling_corrected")},
        "total": [_total(own, [weights[name] for name in scores]) for own in zip(*scores.values(), strict=True)],
        **{f"score_{name}": _known(of_component) for name, of_component in scores.items()},
        **{f"advantage_{name}": of_component for name, of_component in parts.items()},
    }
    schema = rollout_schema(list(scores))
    return pa.table(rows, schema=schema.append(EXTRA) if EXTRA.name in rows else schema)


def extra_column(logged: Mapping[str, Mapping[str, list]], completions: int) -> dict[str, list[str]]:
    """The column `EXTRA` from each component's logged columns; empty if nothing was logged."""
    if not any(logged.values()):
        return {}
    rows = [
        {name: {column: values[row] for column, values in of.items()} for name, of in logged.items() if of}
        for row in range(completions)
    ]
    return {EXTRA.name: [json.dumps(row, sort_keys=True) for row in rows]}


def sampling_gap(
    trainer: Tensor, sampler: Tensor, mask: Tensor, ratio: Tensor, by_sequence: bool
) -> dict[str, list[float]]:
    """Gap between vLLM's log-probabilities and the trainer's, by completion: columns of the rollout log.

    Two implementations of a model differ by rounding; importance sampling corrects for this (Yao et al. 2025, "Your
    efficient RL framework secretly brings you off-policy RL training"). If new weights did not reach vLLM, the gap is
    far larger.

    `trainer` and `sampler`, (B, T), are log-probabilities by the trainer, and by vLLM, with NaN where vLLM gave none.
    `mask`, (B, T), says which tokens count. `ratio`, (B, T) or (B, 1), has the importance ratios that the loss is
    multiplied by, of whole completions if `by_sequence`. `sampling_gap` is the mean absolute difference in nats, and
    `sampling_corrected` the share of tokens whose ratio was cut off or set to zero; NaN where TRL masks all tokens.
    """
    difference = ((trainer - sampler) * mask).nan_to_num(nan=0.0)
    tokens = torch.where(mask.any(1), mask.sum(1), torch.nan)  # NaN where TRL leaves a truncated completion out
    exact = torch.exp(difference.sum(1, keepdim=True) if by_sequence else difference)
    cut = (ratio != exact).expand_as(mask) & mask.bool()
    return {
        "sampling_gap": (difference.abs().sum(1) / tokens).tolist(),
        "sampling_corrected": (cut.sum(1) / tokens).tolist(),
    }


def _known(numbers: list[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in numbers]


def _total(scores: Iterable[float], weights: Iterable[float]) -> float | None:
    terms = [weight * score for score, weight in zip(scores, weights, strict=True) if weight and not math.isnan(score)]
    return math.fsum(terms) if terms else None
