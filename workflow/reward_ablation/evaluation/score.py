"""Grades of completions, strict and lenient: one row per question and sample, in the same way for every arm.

`evaluate` calls it with all completions of a model to a set. Strict grades accept only the study's answer format,
lenient ones any. `stored` takes the columns from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reward_ablation.evaluation.requests import Completion, Request
from reward_ablation.rewards import extract_lenient, grade_answers, grade_batch, math_paper
from reward_ablation.rewards.grading.extraction import bare_gold

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Columns of answers in a study with the metrics of mathematics.
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
        pa.field("correct_math_paper", pa.bool_(), nullable=False),  # the strict answer, by the second grader
        pa.field("format", pa.bool_(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),  # with the end token
        pa.field("truncated", pa.bool_(), nullable=False),
    ]
)

#: Columns that the metrics of mathematics add. Answers in other studies have only the other columns.
VERDICTS = {"answer", "status", "correct_strict", "correct_lenient", "correct_math_paper", "format"}


def schema_of(answer_format: str | None) -> pa.Schema:
    """Columns of answers under an answer format, or without one."""
    return pa.schema([field for field in SCHEMA if answer_format is not None or field.name not in VERDICTS])


def score(
    requests: Sequence[Request],
    completions: Sequence[Completion],
    golds: dict[str, str],
    answer_format: str | None,
    tokenizer: PreTrainedTokenizerBase,
) -> pa.Table:
    """Table of `schema_of` the answer format, one row per request, in their order; with None nothing is graded."""
    # The strict grade looks for the answer in its format. The lenient one takes any format, else what the prose states,
    # else the last formula or number. Texts are decoded without special tokens.
    texts = tokenizer.batch_decode([completion.ids for completion in completions], skip_special_tokens=True)
    verdicts: list[dict[str, Any]] = [{} for _ in texts]
    if answer_format is not None:
        verdicts = score_texts(texts, [golds[request.problem_id] for request in requests], answer_format)
    rows = [
        {
            "problem_id": request.problem_id,
            "mode": request.mode,
            "sample": request.sample,
            "completion": text,
            **verdict,
            "tokens": len(completion.ids),
            "truncated": completion.truncated,
        }
        for request, completion, text, verdict in zip(requests, completions, texts, verdicts, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=schema_of(answer_format))


def score_texts(texts: Sequence[str], golds: Sequence[str], answer_format: str) -> list[dict[str, Any]]:
    """The columns in `VERDICTS` of each completion, which its text and its gold decide."""
    # The second grader judges the answer that the strict extraction found: it checks how answers are compared, not
    # where they are found. Without an answer, both graders say no.
    strict = grade_batch(texts, golds, answer_format)
    lenient = grade_answers([extract_lenient(text) for text in texts], golds)
    return [
        {
            "answer": verdict.answer,
            "status": verdict.status,
            "correct_strict": verdict.status == "correct",
            "correct_lenient": other.status == "correct",
            "correct_math_paper": verdict.answer is not None and math_paper.equivalent(verdict.answer, bare_gold(gold)),
            "format": verdict.answer is not None,
        }
        for verdict, other, gold in zip(strict, lenient, golds, strict=True)
    ]
