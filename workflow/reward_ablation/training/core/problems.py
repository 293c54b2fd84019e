"""The problems that a run trains on: those whose prompt, with a whole completion, fits into the model's context.

`build`, the checks before a start, and `training.around.launch`, for the longest text of vLLM, call the same function.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from transformers import PreTrainedTokenizerBase

from reward_ablation.sampling.context import context_of, describe_too_long, too_long
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from reward_ablation.spec.run import RunSpec


def training_problems(
    spec: RunSpec, model: Path, tokenizer: PreTrainedTokenizerBase, problems: Path, completion: int
) -> tuple[list[dict[str, Any]], int]:
    """Rows of prepared problems for TRL: `prompt`, `problem_id` and other columns; and the longest prompt's length.

    Lengths are in tokens, and `completion` is the longest length of a completion. Raises StudyError if all prompts are
    too long for the model, or if one is and the spec refuses that.
    """
    rows = pq.read_table(problems).to_pylist()
    prompts = [render_prompt(row["question"], spec.prompt) for row in rows]
    variables = spec.training.get("chat_template_kwargs")
    tokens = tokenize_prompts(prompts, tokenizer, spec.prompt.date, variables, [row["id"] for row in rows])
    context = context_of(model)
    left_out = set(too_long(tokens, context, completion))
    if left_out and (spec.data.too_long == "refuse" or len(left_out) == len(rows)):
        remedy = (
            "lower max_completion_length, or take a model with a longer context"
            if len(left_out) == len(rows)
            else "lower max_completion_length, or set data.train.too_long: drop to leave these problems out"
        )
        described = describe_too_long(tokens, left_out, context, completion)
        raise StudyError(f"training.max_completion_length: {described}; {remedy}")
    kept = [number for number in range(len(rows)) if number not in left_out]
    return (
        [{"prompt": prompts[number], "problem_id": rows[number].pop("id"), **rows[number]} for number in kept],
        max(len(tokens[number]) for number in kept),
    )
