"""From a model folder and problems to graded answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reward_ablation.data.prompts import render_prompt, tokenize_prompts
from reward_ablation.evaluation.generate import choose_backend, find_end_tokens, generate_transformers, generate_vllm
from reward_ablation.evaluation.requests import Completion, Request, list_requests
from reward_ablation.evaluation.score import score
from reward_ablation.models.load import load_model, load_tokenizer, whole_model
from reward_ablation.study.errors import StudyError
from reward_ablation.study.sections.evaluation import Evaluation
from reward_ablation.study.sections.prompt import Prompt

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from transformers import PreTrainedTokenizerBase


def evaluate(
    evaluation: Evaluation, prompt: Prompt, device: str, folder: Path, base: Path | None, problems: pd.DataFrame
) -> pa.Table:
    """Answers of one model to a set of problems, graded: `score.SCHEMA`, in the problems' order.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    folder : Path
        Of a whole model, or of a LoRA adapter over `base`. An adapter stays beside its base and is
        not merged: what is judged is what was trained, and merging in bfloat16 rounds small updates away.
    problems : DataFrame
        Columns id, question, answer.
    """
    whole = whole_model(folder, base)
    tokenizer = load_tokenizer(whole)
    prompts = tokenize_prompts([render_prompt(question, prompt) for question in problems["question"]], tokenizer)
    requests = list_requests(problems["id"], prompts, evaluation)
    end_tokens = find_end_tokens(whole, tokenizer)
    completions = generate(requests, device, folder, base, end_tokens, tokenizer, evaluation)
    start = time.monotonic()
    golds = dict(zip(problems["id"], problems["answer"], strict=True))
    table = score(requests, completions, golds, evaluation.answer_format, tokenizer)
    print(f"graded {table.num_rows} completions in {time.monotonic() - start:.1f} s", flush=True)
    return table


def generate(
    requests: Sequence[Request],
    device: str,
    folder: Path,
    base: Path | None,
    end_tokens: Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    evaluation: Evaluation,
) -> list[Completion]:
    """Completions by the backend that the evaluation asks for; bfloat16 on a GPU, float32 on a CPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise StudyError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to evaluate on the CPU")
    if choose_backend(evaluation.backend, device) == "vllm":
        return generate_vllm(requests, folder, base, end_tokens, evaluation)
    model: Any = load_model(folder, "bfloat16" if device == "cuda" else "float32", base)
    model.to(device)
    return generate_transformers(requests, model, end_tokens, tokenizer.pad_token_id, evaluation)
