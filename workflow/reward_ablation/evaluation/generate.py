"""Generate completions for requests, by transformers or by vLLM."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from transformers import AutoConfig, GenerationConfig, LogitsProcessorList

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.requests import Completion, Request, cut_at_end, request_seed
from reward_ablation.sampling.draws import SampleByRow, uniforms
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Backend = Literal["transformers", "vllm"]

#: Seconds between two lines of progress.
REPORT_EVERY = 10.0


def choose_backend(wanted: Literal["auto", "transformers", "vllm"], device: str) -> Backend:
    """Backend to generate with: vLLM where it is installed and the device is a GPU, unless told otherwise.

    Raises
    ------
    StudyError
        vLLM is asked for and cannot run here.
    """
    possible = find_spec("vllm") is not None and device == "cuda"
    if wanted == "vllm" and not possible:
        raise StudyError("evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers")
    return "vllm" if possible and wanted != "transformers" else "transformers"


def find_end_tokens(folder: str | Path, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Token ids that end a completion: the model's own and the tokenizer's, as in TRL.

    Parameters
    ----------
    folder : path
        Folder of the whole model; its generation_config.json, or else its config.json, is read.
    """
    try:
        config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:
        config = GenerationConfig.from_model_config(AutoConfig.from_pretrained(folder, local_files_only=True))
    own = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    end_tokens = sorted({token for token in [*own, tokenizer.eos_token_id] if token is not None})
    if not end_tokens:
        raise StudyError(f"{folder}: neither model nor tokenizer names an end token; set eos_token_id")
    return end_tokens


# ---------------------------------------------------------------------------- transformers


def batches_by_length(requests: Sequence[Request], batch_size: int) -> list[list[int]]:
    """Positions of the requests in batches, longest prompt first.

    Like lengths share a batch, so that little is padded; the longest go first, so that a batch
    which does not fit the memory fails at once.
    """
    order = sorted(range(len(requests)), key=lambda index: -len(requests[index].prompt))
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def pad_left(prompts: Sequence[Sequence[int]], pad_token: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, longest) token ids with the padding on the left, and the mask of real tokens."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_token] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return ids, mask


def random_numbers(requests: Sequence[Request], evaluation: Evaluation) -> torch.Tensor:
    """(rows, max_new_tokens) numbers in [0, 1), each row from its own stream; NaN for greedy requests."""
    numbers = np.full((len(requests), evaluation.max_new_tokens), np.nan)
    for row, request in enumerate(requests):
        if request.mode == "sampled":
            numbers[row] = uniforms(request_seed(request, evaluation.seed), evaluation.max_new_tokens)
    return torch.from_numpy(numbers)


def generate_batch(model: Any, requests: Sequence[Request], evaluation: Evaluation, pad_token: int) -> list[list[int]]:
    """New token ids of each request of one batch, with whatever follows the end token."""
    ids, mask = pad_left([request.prompt for request in requests], pad_token)
    processors = LogitsProcessorList()
    if any(request.mode == "sampled" for request in requests):
        numbers = random_numbers(requests, evaluation)
        processors.append(SampleByRow(numbers, evaluation.temperature, evaluation.top_p))
    output = model.generate(
        input_ids=ids.to(model.device), attention_mask=mask.to(model.device), logits_processor=processors
    )
    return output[:, ids.shape[1] :].tolist()


def generate_transformers(
    requests: Sequence[Request],
    model: Any,
    end_tokens: Sequence[int],
    pad_token: int,
    evaluation: Evaluation,
) -> list[Completion]:
    """Completions by transformers' `generate`, in the order of the requests.

    A request's random numbers do not depend on its batch. Its logits do, in the last bits, through
    padding and the shape of matrix products: another batch size changes an answer only where two
    tokens are tied that closely (fp32 on a CPU: rarely; bf16: now and then). The same batch size on
    the same machine repeats exactly on a CPU.

    Parameters
    ----------
    model : PreTrainedModel or PeftModel
        On its device. Its own generation settings (sampling fields, repetition penalty) are replaced,
        since models ship them and arms must be judged alike.
    """
    model.generation_config = GenerationConfig(
        max_new_tokens=evaluation.max_new_tokens,
        do_sample=False,  # the draw is made by SampleByRow
        eos_token_id=list(end_tokens),
        pad_token_id=pad_token,
    )
    completions: dict[int, Completion] = {}
    progress = Progress(len(requests))
    with torch.inference_mode():
        for batch in batches_by_length(requests, evaluation.batch_size):
            new = generate_batch(model, [requests[index] for index in batch], evaluation, pad_token)
            for index, ids in zip(batch, new, strict=True):
                completions[index] = cut_at_end(ids, end_tokens)
            progress.add([completions[index] for index in batch])
    return [completions[index] for index in range(len(requests))]


class Progress:
    """Prints done/total and tokens per second: after the first batch, then every few seconds, and at the end."""

    def __init__(self, total: int):
        self.total, self.done, self.tokens = total, 0, 0
        self.start, self.reported = time.monotonic(), -float("inf")

    def add(self, completions: Sequence[Completion]) -> None:
        self.done += len(completions)
        self.tokens += sum(len(completion.ids) for completion in completions)
        now = time.monotonic()
        if self.done == self.total or now - self.reported >= REPORT_EVERY:
            self.reported = now
            rate = self.tokens / max(now - self.start, 1e-9)
            print(f"{self.done}/{self.total} completions, {rate:.0f} tokens/s", flush=True)


# ---------------------------------------------------------------------------- vLLM


def generate_vllm(
    requests: Sequence[Request],
    folder: str | Path,
    base: str | Path | None,
    end_tokens: Sequence[int],
    evaluation: Evaluation,
    dtype: str = "bfloat16",
) -> list[Completion]:
    """Completions by vLLM, in the order of the requests; a seed per request, an adapter unmerged.

    vLLM shows its own progress.
    """
    from vllm import LLM, SamplingParams, TokensPrompt
    from vllm.lora.request import LoRARequest

    adapter = Path(folder) / "adapter_config.json"
    lora, engine_options = None, {}
    if adapter.is_file():
        rank = json.loads(adapter.read_text())["r"]
        lora = LoRARequest("arm", 1, str(folder))
        # vLLM takes powers of two from 8 on as the largest rank.
        engine_options = {"enable_lora": True, "max_lora_rank": max(8, 1 << (rank - 1).bit_length())}
    longest = max(len(request.prompt) for request in requests)
    engine = LLM(
        model=str(base if lora else folder),
        dtype=dtype,
        seed=evaluation.seed,
        max_model_len=longest + evaluation.max_new_tokens,
        generation_config="vllm",  # the model's own sampling fields are not used
        **engine_options,
    )
    parameters = [
        SamplingParams(
            temperature=evaluation.temperature if request.mode == "sampled" else 0.0,
            top_p=evaluation.top_p if request.mode == "sampled" else 1.0,
            max_tokens=evaluation.max_new_tokens,
            seed=request_seed(request, evaluation.seed) if request.mode == "sampled" else None,
            stop_token_ids=list(end_tokens),
        )
        for request in requests
    ]
    prompts = [TokensPrompt(prompt_token_ids=list(request.prompt)) for request in requests]
    outputs = engine.generate(prompts, parameters, lora_request=lora)
    return [cut_at_end(list(output.outputs[0].token_ids), end_tokens) for output in outputs]
