"""Rollouts by vLLM, each with a seed of its own, from the weights that are trained.

`trainer` generates inside `own_seeds` in a run with vLLM, and gives vLLM the weights of `merged_weights` if it trains
adapters. TRL gives all requests of a step one seed: the completions of a group would be equal, or all problems would
share random numbers. `tests/training/test_trl.py` pins how TRL calls the methods that are replaced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from peft.tuners.lora import LoraLayer
from torch import Tensor

#: Number of requests that a server is sent at once, a free choice. The server batches them as they come.
REQUESTS_AT_ONCE = 512
#: What peft adds to the names of a model's parameters: before all names, and in the names of a layer with an adapter.
_PREFIX, _BASE = "base_model.model.", ".base_layer."


@contextmanager
def own_seeds(generation: Any, seeds: list[int]) -> Iterator[None]:
    """Let TRL's VLLMGeneration generate each of this process's rollouts by its own seed, in the prompts' order.

    All processes call this function together, because some exchange their seeds.
    """
    if generation.mode == "server":
        seeds = gather_object(seeds)
        caller, replacement = getattr(generation, "vllm_client", None), seeded_client
    else:
        if generation.tensor_parallel_size > 1:  # every process of a tensor-parallel group generates all its rollouts
            lists: list[Any] = [None] * generation.tensor_parallel_size
            torch.distributed.all_gather_object(lists, seeds, group=generation.tp_group)
            seeds = [seed for of_process in lists for seed in of_process]
        caller, replacement = generation.llm, seeded_engine
    if caller is None:  # only the first process talks to the server
        yield
        return
    caller.generate = replacement(caller.generate, seeds)
    try:
        yield
    finally:
        del caller.generate


def seeded_engine(generate: Callable, seeds: Sequence[int]) -> Callable:
    """`LLM.generate` with a seed for each prompt. TRL repeats a prompt for each of its completions."""

    def seeded(prompts: list, sampling_params: Any, **options: Any) -> Any:
        each = []
        for _, seed in zip(prompts, seeds, strict=True):
            parameters = sampling_params.clone()
            parameters.seed = seed
            each.append(parameters)
        return generate(prompts, sampling_params=each, **options)

    return seeded


def seeded_client(generate: Callable, seeds: Sequence[int]) -> Callable:
    """`VLLMClient.generate` with a request of its own, and a seed, for each of the `n` completions of a prompt."""

    def seeded(prompts: list, n: int, generation_kwargs: dict | None = None, **options: Any) -> dict[str, Any]:
        repeated = [prompt for prompt in prompts for _ in range(n)]

        def one(prompt: Any, seed: int) -> dict[str, Any]:
            own = {**(generation_kwargs or {}), "seed": seed}
            return generate(prompts=[prompt], n=1, generation_kwargs=own, **options)

        if len(seeds) != len(repeated):
            raise ValueError(f"{len(seeds)} seeds for {len(repeated)} completions")
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            answers = list(pool.map(one, repeated, seeds))
        joined = {name: [row for answer in answers for row in answer[name]] for name in answers[0]}
        return {**joined, "prompt_ids": joined["prompt_ids"][::n]}  # TRL expects these once for each prompt

    return seeded


@torch.no_grad()
def merged_weights(model: Any, gather: Callable[[list], AbstractContextManager]) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of a base model with its LoRA adapters added, one at a time, in copies of adapted weights.

    TRL merges the adapters into the base and subtracts them again. In floating point, w + d - d is not w, so that the
    frozen base would drift. `gather` makes parameters whole in a `with` block, because ZeRO-3 holds only slices.
    """
    adapted: dict[str, Any] = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    for name, weight in model.named_parameters():
        if model.prefix in name:  # a parameter of an adapter
            continue
        layer = adapted.get(name.partition(_BASE)[0]) if name.endswith(f"{_BASE}weight") else None
        own = [part for part_name, part in layer.named_parameters() if model.prefix in part_name] if layer else []
        with gather([weight, *own]):
            merged = weight.data
            if layer is not None:
                for adapter in layer.active_adapters:
                    merged = merged + layer.get_delta_weight(adapter)  # float32 if the adapter is float32
            yield name.removeprefix(_PREFIX).replace(_BASE, "."), merged.to(weight.dtype)
