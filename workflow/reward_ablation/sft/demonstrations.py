"""Demonstrations: prompts as GRPO gives them, and what is to be learnt after each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.sampling.prompts import Messages, render_prompt, tokenize_prompts
from reward_ablation.study.run_spec import SftSpec
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Problem = dict[str, Any]


def read_demonstrations(problems: Path, spec: SftSpec) -> tuple[list[str | Messages], list[str]]:
    """Prompts and completions of a prepared set.

    Parameters
    ----------
    problems : Path
        Parquet of the problem schema.
    spec : SftSpec
    """
    import pyarrow.parquet as pq

    rows = pq.read_table(problems, columns=["id", "question", "answer", "solution"]).to_pylist()
    return [render_prompt(row["question"], spec.prompt) for row in rows], completions_of(rows, spec.completion)


def completions_of(rows: Sequence[Problem], templates: Sequence[str]) -> list[str]:
    r"""The completion of each row: row i takes template i modulo their number.

    Other braces of a template (\boxed{}) stay as they are.

    Raises
    ------
    StudyError
        A row has no solution, and its template needs one.
    """
    return [_filled(templates[index % len(templates)], row) for index, row in enumerate(rows)]


def working(solution: str) -> str:
    """A worked solution as GSM8K writes it, without its notes for a calculator and its last line, `#### 72`.

    >>> working("She has 9 * 8 = <<9*8=72>>72 eggs.\n#### 72")
    'She has 9 * 8 = 72 eggs.'
    """
    return re.sub(r"<<[^<>\n]*>>", "", re.sub(r"\n####[^\n]*\s*$", "", solution))


def _filled(template: str, row: Problem) -> str:
    if re.search(r"\{(solution|working)\}", template) and not (row["solution"] or "").strip():
        raise StudyError(
            f"sft.data: {row['id']} has no solution, and the template {template!r} needs one; name its column with "
            "columns: {solution: ...}, take such rows out, or use {answer}"
        )
    # In one pass: a solution may hold the text {answer}.
    values = {**row, "working": working(row["solution"] or "")}
    return re.sub(r"\{(solution|working|answer)\}", lambda found: values[found[1]], template)


def tokenized(
    prompts: Sequence[str | Messages],
    completions: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> list[dict[str, list[int]]]:
    """Token ids of demonstrations, as TRL's SFTTrainer takes them where it need not tokenise.

    The prompt's tokens are those that a rollout is sampled after. TRL itself would tokenise prompt and completion as
    one text, in which tokens may merge across the boundary, and end a chat as its template does, which may be by
    another token, or some more, than rollouts end by.

    Returns
    -------
    list of dict
        `input_ids`, the prompt's, the completion's and one end token; `completion_mask`, 1 where it is to be learnt.

    Raises
    ------
    StudyError
        The tokenizer has no end token, or the prompts do not go with it.
    """
    end = tokenizer.eos_token
    if end is None:
        raise StudyError("sft: the model's tokenizer has no eos_token, so that no completion would end; set one")
    before = tokenize_prompts(prompts, tokenizer, chat_template_kwargs)
    texts = [completion.removesuffix(end) for completion in completions]
    after = [[*ids, tokenizer.eos_token_id] for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    return [
        {"input_ids": prompt + completion, "completion_mask": [0] * len(prompt) + [1] * len(completion)}
        for prompt, completion in zip(before, after, strict=True)
    ]
