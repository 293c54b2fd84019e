"""The supervised start's demonstrations: prompts as in GRPO training, and the completion to learn after each prompt.

The command of the rule `sft` reads them before it imports torch, so that bad ones are refused at once. `fine_tune` then
turns them into tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.sampling.prompts import Messages, render_prompt, tokenize_prompts
from reward_ablation.spec.run import SftSpec
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Problem = dict[str, Any]


def read_demonstrations(problems: Path, spec: SftSpec) -> tuple[list[str | Messages], list[str]]:
    """Prompts and completions of a prepared set, a Parquet file of the problem schema."""
    import pyarrow.parquet as pq

    rows = pq.read_table(problems, columns=["id", "question", "answer", "solution"]).to_pylist()
    return [render_prompt(row["question"], spec.prompt) for row in rows], completions_of(rows, spec.completion)


def completions_of(rows: Sequence[Problem], templates: Sequence[str]) -> list[str]:
    """The completion of each row: row i takes template i modulo their number. Braces of other names stay."""
    return [_filled(templates[index % len(templates)], row) for index, row in enumerate(rows)]


def working(solution: str) -> str:
    """A worked solution in GSM8K's form, without its notes for a calculator and without its last line, `#### 72`.

    >>> working("She has 9 * 8 = <<9*8=72>>72 eggs.\n#### 72")
    'She has 9 * 8 = 72 eggs.'
    """
    return re.sub(r"<<[^<>\n]*>>", "", re.sub(r"(^|\r?\n)####[^\n]*\s*$", "", solution))


def _filled(template: str, row: Problem) -> str:
    if re.search(r"\{(solution|working)\}", template) and not (row["solution"] or "").strip():
        raise StudyError(
            f"sft.data: {row['id']} has no solution, and the template {template!r} needs one; name its column with "
            "columns: {solution: ...}, take such rows out, or use {answer}"
        )
    # In one pass, because a solution may contain the text {answer}.
    values = {**row, "working": working(row["solution"] or "")}
    return re.sub(r"\{(solution|working|answer)\}", lambda found: values[found[1]], template)


def tokenized(
    prompts: Sequence[str | Messages],
    completions: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    date: str,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> list[dict[str, list[int]]]:
    """Token ids of demonstrations, in the form that TRL's SFTTrainer takes without tokenising.

    The prompt's tokens are the same as before a rollout. TRL itself would tokenise prompt and completion as one text,
    in which tokens may merge across the boundary. It would also end a chat by the template's end, which may be another
    token, or more tokens, than the end of rollouts.

    An end token at the end of a completion is not doubled. In each result, `input_ids` are the prompt's tokens, the
    completion's and one end token, and `completion_mask` is 1 at tokens to learn.
    """
    end = tokenizer.eos_token
    if end is None:
        raise StudyError("sft: the model's tokenizer has no eos_token, so that no completion would end; set one")
    before = tokenize_prompts(prompts, tokenizer, date, chat_template_kwargs)
    texts = [completion.removesuffix(end) for completion in completions]
    after = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    return [
        {"input_ids": prompt + completion, "completion_mask": [0] * len(prompt) + [1] * len(completion)}
        for prompt, completion in zip(before, after, strict=True)
    ]
