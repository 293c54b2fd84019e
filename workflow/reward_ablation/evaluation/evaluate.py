"""From a model folder and problems to graded answers."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.generate import choose_backend, find_end_tokens, generate_transformers, generate_vllm
from reward_ablation.evaluation.requests import Completion, Request, list_requests
from reward_ablation.evaluation.score import schema_of, score
from reward_ablation.models.device import gpu_kind
from reward_ablation.models.load import load_model, whole_model
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.study.run_spec import EvaluateSpec
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase


def kept_schema(answer_format: str | None) -> pa.Schema:
    """Columns of the answers of models that a run kept: those of answers, with the step after which one was kept."""
    return pa.schema([pa.field("step", pa.int64(), nullable=False), *schema_of(answer_format)])


def evaluate(spec: EvaluateSpec, folder: Path, base: Path | None, problems: pd.DataFrame) -> pa.Table:
    """Answers of one model to a set of problems, graded: `score.schema_of`, in the problems' order.

    Parameters
    ----------
    folder : Path
        Of a whole model, or of a LoRA adapter over `base`. An adapter stays beside its base and is
        not merged: what is judged is what was trained, and merging in bfloat16 rounds small updates away.
    problems : DataFrame
        Columns id, question, answer.
    """
    whole = whole_model(folder, base)
    tokenizer = load_tokenizer(whole)
    rendered = [render_prompt(question, spec.prompt) for question in problems["question"]]
    prompts = tokenize_prompts(rendered, tokenizer, spec.chat_template_kwargs)
    requests = list_requests(problems["id"], prompts, spec.evaluation)
    end_tokens = find_end_tokens(whole, tokenizer)
    completions = generate(requests, spec.device, folder, base, end_tokens, tokenizer, spec.evaluation)
    start = time.monotonic()
    golds = dict(zip(problems["id"], problems["answer"], strict=True))
    table = score(requests, completions, golds, spec.evaluation.answer_format, tokenizer)
    print(f"graded {table.num_rows} completions in {time.monotonic() - start:.1f} s", flush=True)
    return table


def evaluate_kept(spec: EvaluateSpec, kept: dict[int, Path], base: Path | None, problems: pd.DataFrame) -> pa.Table:
    """Answers of the models that a run kept, one after the other: `kept_schema`, in order of steps.

    Parameters
    ----------
    kept : dict of int to Path
        Folder of a model, or of an adapter over `base`, by step.
    """
    schema = kept_schema(spec.evaluation.answer_format)
    tables = [schema.empty_table()]
    for number, (step, folder) in enumerate(kept.items(), start=1):
        print(f"step {step}, model {number} of {len(kept)}", flush=True)
        answers = evaluate(spec, folder, base, problems)
        steps = pa.array([step] * answers.num_rows, pa.int64())
        tables.append(answers.add_column(0, schema.field("step"), steps).cast(schema))
        gc.collect()  # vLLM's engine gives its memory back when it is collected
    return pa.concat_tables(tables)


def generate(
    requests: Sequence[Request],
    device: str,
    folder: Path,
    base: Path | None,
    end_tokens: Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    evaluation: Evaluation,
) -> list[Completion]:
    """Completions by the backend that the evaluation asks for; bfloat16 on NVIDIA's GPUs, float32 elsewhere.

    The device `cuda` of a spec is the GPU that is here.
    """
    kind = gpu_kind() if device == "cuda" else "cpu"
    if kind is None:
        raise StudyError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to evaluate on the CPU")
    dtype = "bfloat16" if kind == "cuda" else "float32"
    if choose_backend(evaluation.backend, device) == "vllm":
        return generate_vllm(requests, folder, base, end_tokens, evaluation, dtype)
    model: Any = load_model(folder, dtype, base)
    model.to(kind)
    return generate_transformers(requests, model, end_tokens, tokenizer.pad_token_id, evaluation)
