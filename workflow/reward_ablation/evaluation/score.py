"""Grade completions: one row per question and sample, strict and lenient, whatever an arm was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reward_ablation.evaluation.requests import Completion, Request
from reward_ablation.rewards import extract_lenient, grade, grade_answer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),  # greedy, sampled
        pa.field("sample", pa.int64(), nullable=False),  # 0 for greedy
        pa.field("completion", pa.string(), nullable=False),
        pa.field("answer", pa.string()),  # strict extraction
        pa.field("status", pa.string(), nullable=False),  # of the strict grade
        pa.field("correct_strict", pa.bool_(), nullable=False),
        pa.field("correct_lenient", pa.bool_(), nullable=False),
        pa.field("format", pa.bool_(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),  # with the end token
        pa.field("truncated", pa.bool_(), nullable=False),
    ]
)


def score(
    requests: Sequence[Request],
    completions: Sequence[Completion],
    golds: dict[str, str],
    answer_format: str,
    tokenizer: PreTrainedTokenizerBase,
) -> pa.Table:
    """Table of `SCHEMA` with one row per request, in their order.

    Parameters
    ----------
    golds : dict
        Right answer by problem id.
    answer_format : str
        Where the strict grade looks for the answer; the lenient one takes any format, else the last number.
    """
    texts = tokenizer.batch_decode([completion.ids for completion in completions], skip_special_tokens=True)
    rows = []
    for request, completion, text in zip(requests, completions, texts, strict=True):
        rows.append(
            {
                "problem_id": request.problem_id,
                "mode": request.mode,
                "sample": request.sample,
                "completion": text,
                **score_text(text, golds[request.problem_id], answer_format),
                "tokens": len(completion.ids),
                "truncated": completion.truncated,
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def score_text(text: str, gold: str, answer_format: str) -> dict[str, Any]:
    """Columns of one completion that its text decides."""
    strict = grade(text, gold, answer_format)
    return {
        "answer": strict.answer,
        "status": strict.status,
        "correct_strict": strict.status == "correct",
        "correct_lenient": grade_answer(extract_lenient(text), gold).status == "correct",
        "format": strict.answer is not None,
    }
