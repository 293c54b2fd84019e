"""Completions for the requests of an evaluation, by transformers or by vLLM.

`evaluate` makes one of the two generators and calls it for each model and set. Both have the same signature
(`Generator`), so that grading does not depend on which of them generates.
"""

from __future__ import annotations

import gc
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessorList

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.requests import Completion, Request, cut_at_end, request_seed
from reward_ablation.models.load import load_model
from reward_ablation.sampling.decode import JOINING, Batch
from reward_ablation.sampling.draws import SampleByRow, WatchLogits, uniforms
from reward_ablation.sampling.generation_config import read_generation_config
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Seconds between two lines of progress.
REPORT_EVERY = 10.0
#: Generates completions for requests, in their order, by the model or the LoRA adapter in a folder. The last arguments
#: are the end tokens and the pad token.
Generator = Callable[[Sequence[Request], Path, Sequence[int], int], list[Completion]]


def choose_backend(wanted: Literal["auto", "transformers", "vllm"], device: str) -> Literal["transformers", "vllm"]:
    """Backend to generate with. `auto` is vLLM if it is installed and the device is a GPU, else transformers."""
    possible = find_spec("vllm") is not None and device == "cuda"
    if wanted == "vllm" and not possible:
        raise StudyError("evaluation.backend: vllm needs the package vllm and a GPU; use auto or transformers")
    return "vllm" if possible and wanted != "transformers" else "transformers"


def find_end_tokens(folder: str | Path, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Token ids that end a completion, as in TRL: the tokenizer's, and those of the folder's configs."""
    named = read_generation_config(folder).eos_token_id
    own = named if isinstance(named, list) else [named]
    end_tokens = sorted({token for token in [*own, tokenizer.eos_token_id] if token is not None})
    if not end_tokens:
        raise StudyError(f"{folder}: neither model nor tokenizer names an end token; set eos_token_id")
    return end_tokens


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


def generate_transformers(
    requests: Sequence[Request], model: Any, end_tokens: Sequence[int], pad_token: int, evaluation: Evaluation
) -> list[Completion]:
    """Completions by transformers' `generate`, in the order of the requests."""
    # A request's random numbers do not depend on its batch. The last bits of its logits do, because of padding and the
    # shape of matrix products. Another batch size therefore changes an answer only if two tokens are tied that closely
    # (fp32 on a CPU: rarely; bf16: now and then). On a CPU, the same batch size on the same machine repeats exactly.
    # The model's own generation settings are replaced: all arms must be judged alike.
    completions: dict[int, Completion] = {}
    progress = Progress(len(requests))
    with torch.inference_mode():
        for number, completion in decode_requests(model, requests, evaluation, end_tokens, pad_token):
            completions[number] = completion
            progress.add(completion)
    return [completions[number] for number in range(len(requests))]


def decode_requests(
    model: Any, requests: Sequence[Request], evaluation: Evaluation, end_tokens: Sequence[int], pad_token: int
) -> Iterator[tuple[int, Completion]]:
    """Number of each request and its completion, as they end. Raises `NotFinite` if logits give no distribution."""
    # Waiting requests take the places of those that have ended, or form the next batch where the cache forbids it.
    model.generation_config = GenerationConfig(
        max_new_tokens=evaluation.max_new_tokens,
        do_sample=False,  # the draw is made by SampleByRow
        eos_token_id=list(end_tokens),
        pad_token_id=pad_token,
    )
    # The longest prompts go first: if they do not fit the memory, the evaluation fails at once.
    waiting = deque(sorted(range(len(requests)), key=lambda number: -len(requests[number].prompt)))
    watch = WatchLogits()
    batch: Batch | None = None
    while waiting or batch:
        free = evaluation.batch_size - len(batch.ids) if batch else evaluation.batch_size
        if waiting and (batch is None or (batch.open and free >= JOINING * evaluation.batch_size)):
            numbers = [waiting.popleft() for _ in range(min(free, len(waiting)))]
            started = start_batch(model, [requests[number] for number in numbers], evaluation, pad_token, watch, batch)
            started.number = started.number.new_tensor(numbers)
            if batch:
                batch.join(started)
            batch = batch or started
        assert batch is not None  # without one, the waiting requests have just started one
        for number, ids in batch.step():
            yield number, Completion(ids, truncated=ids[-1] not in end_tokens)
        if not batch.running.any():
            watch.refuse_undefined()
            batch = None


def start_batch(
    model: Any,
    requests: Sequence[Request],
    evaluation: Evaluation,
    pad_token: int,
    watch: WatchLogits,
    batch: Batch | None,
) -> Batch:
    """The requests after their prefill, ready to join `batch` if there is one."""
    ids, mask = pad_left([request.prompt for request in requests], pad_token)
    processors = [watch, SampleByRow(random_numbers(requests, evaluation), evaluation.temperature, evaluation.top_p)]
    if batch is not None:
        return batch.another(ids.to(model.device), mask.to(model.device), LogitsProcessorList(processors))
    return model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        logits_processor=LogitsProcessorList(processors),
        custom_generate=Batch,
    )


class TransformersGenerator:
    """A `Generator` by transformers that keeps the last model loaded."""

    def __init__(self, evaluation: Evaluation, base: str | Path | None, dtype: str, device: str):
        self.evaluation, self.base, self.dtype, self.device = evaluation, base, dtype, device
        self.folder: Path | None = None
        self.model: Any = None

    def __call__(
        self, requests: Sequence[Request], folder: Path, end_tokens: Sequence[int], pad_token: int
    ) -> list[Completion]:
        if folder != self.folder:
            self.folder, self.model = folder, None  # free the last model's memory before the next is loaded
            self.model = load_model(folder, self.dtype, self.base)
            self.model.to(self.device)
        return generate_transformers(requests, self.model, end_tokens, pad_token, self.evaluation)


class Progress:
    """Prints done/total and tokens per second after the first batch, then every few seconds, and at the end."""

    def __init__(self, total: int):
        self.total, self.done, self.tokens = total, 0, 0
        self.start, self.reported = time.monotonic(), -float("inf")

    def add(self, completion: Completion) -> None:
        self.done += 1
        self.tokens += len(completion.ids)
        now = time.monotonic()
        if self.done == self.total or now - self.reported >= REPORT_EVERY:
            self.reported = now
            rate = self.tokens / max(now - self.start, 1e-9)
            print(f"{self.done}/{self.total} completions, {rate:.0f} tokens/s", flush=True)


class VllmGenerator:
    """A `Generator` by vLLM: one engine for all adapters over a base, and one for each whole model."""

    def __init__(self, evaluation: Evaluation, base: str | Path | None, dtype: str = "bfloat16", longest: int = 0):
        self.evaluation, self.base, self.dtype, self.longest = evaluation, base, dtype, longest
        self.loaded: Path | None = None
        self.engine: Any = None
        self.adapters: dict[Path, int] = {}

    def __call__(
        self, requests: Sequence[Request], folder: Path, end_tokens: Sequence[int], pad_token: int = 0
    ) -> list[Completion]:
        from vllm import SamplingParams, TokensPrompt
        from vllm.lora.request import LoRARequest

        is_adapter = (folder / "adapter_config.json").is_file()
        self._load(folder, is_adapter)
        lora = None
        if is_adapter:
            number = self.adapters.setdefault(folder, len(self.adapters) + 1)
            lora = LoRARequest("arm" if number == 1 else f"arm{number}", number, str(folder))
        evaluation = self.evaluation
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
        outputs = self.engine.generate(prompts, parameters, lora_request=lora)
        return [cut_at_end(list(output.outputs[0].token_ids), end_tokens) for output in outputs]

    def _load(self, folder: Path, is_adapter: bool) -> None:
        """Start the engine with a whole model, or with the base of an adapter, unless it runs already."""
        from vllm import LLM

        whole = Path(self.base) if is_adapter and self.base is not None else folder
        if whole == self.loaded:
            return
        options: dict[str, Any] = {}
        if is_adapter:
            rank = json.loads((folder / "adapter_config.json").read_text())["r"]
            # vLLM accepts only powers of two from 8 on as the largest rank.
            options = {"enable_lora": True, "max_lora_rank": max(8, 1 << (rank - 1).bit_length())}
        self.loaded, self.engine = whole, None
        gc.collect()  # vLLM's engine releases its memory when it is garbage-collected
        self.engine = LLM(
            model=str(whole),
            dtype=self.dtype,
            seed=self.evaluation.seed,
            max_model_len=self.longest + self.evaluation.max_new_tokens,
            generation_config="vllm",  # the model's own sampling fields are not used
            **options,
        )
