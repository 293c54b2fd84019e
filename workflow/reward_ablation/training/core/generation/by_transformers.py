"""Rollouts by transformers' `generate`, each drawn with its own random numbers.

`trainer` generates inside `own_draws` in a run without vLLM. TRL itself calls `generate`, so this module changes what
the call does. Evaluation needs none of it, because it makes the call itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.integrations import is_deepspeed_zero3_enabled
from trl import GRPOConfig

from reward_ablation.sampling.decode import decode
from reward_ablation.sampling.draws import SampleByRow, WatchLogits, uniforms, where_drawn
from reward_ablation.sampling.generation_config import without_own_settings
from reward_ablation.training.core.model import find_dropout


def warpers(config: GenerationConfig) -> list[Any]:
    """Processors by which a sampling config reshapes the distribution that is drawn from, in transformers' order."""
    found: list[Any] = []
    if config.temperature not in (None, 1.0):
        found.append(TemperatureLogitsWarper(config.temperature))
    if config.top_k:
        found.append(TopKLogitsWarper(config.top_k))
    if config.top_p is not None and config.top_p < 1:
        found.append(TopPLogitsWarper(config.top_p))
    if config.min_p:
        found.append(MinPLogitsWarper(config.min_p))
    return found


class PenaltyOnText(RepetitionPenaltyLogitsProcessor):
    """transformers' penalty on tokens that occur, but not on the pad token for the padding before a prompt.

    The pad token is often the end token: completions of short prompts would end later beside long ones.
    """

    def __init__(self, penalty: float, padding: int):
        super().__init__(penalty)
        self.padding = padding

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores, (rows, vocabulary), after the tokens of each row, (rows, width)."""
        # The last token stands in for the padding: it occurs anyway, and a token is penalised once.
        text = (input_ids != self.padding).cumsum(1) > 0
        return super().__call__(torch.where(text, input_ids, input_ids[:, -1:]), scores)


def penalties(config: GenerationConfig) -> list[Any]:
    """The processor of a sampling config's repetition penalty, which comes before all warpers, as in transformers."""
    if config.repetition_penalty in (None, 1.0):
        return []
    return [PenaltyOnText(float(config.repetition_penalty), config.pad_token_id)]


def must_stay_whole(model: Any, args: GRPOConfig) -> bool:
    """Whether rows that have ended must stay in their batch of rollouts until all have ended.

    Active dropout draws its numbers for a whole batch. Under ZeRO-3, all processes must call the model equally often.
    TRL's `generation_kwargs` may ask for a processor that looks at other rows or earlier calls.
    """
    return is_deepspeed_zero3_enabled() or bool(args.generation_kwargs) or find_dropout(model) is not None


@contextmanager
def own_draws(model: Any, config: GenerationConfig, seeds: list[int], whole: bool = False) -> Iterator[None]:
    """Let the model's `generate`, with this config, draw each row's tokens by the row's own seed, whoever calls it.

    transformers would draw all rows from one stream. Here the config is greedy, and the processor `SampleByRow` draws.
    The warpers are added here, because transformers would apply its own after the draw, and the penalty is added
    here, because transformers' own also counts padding.

    Rows that have ended leave the batch (`decode`), unless it has to stay `whole`. The model's own generation config
    counts for nothing. Dropout stays as active as it is, as in TRL. Raises NotFinite at the end if the logits gave no
    distribution; `watch` sees them before the warpers set tokens to -inf.
    """
    numbers = np.stack([uniforms(seed, config.max_new_tokens) for seed in seeds])  # (rows, max_new_tokens)
    watch = WatchLogits()
    draws = SampleByRow(torch.from_numpy(numbers).to(where_drawn(model.device)))
    processors = [*penalties(config), watch, *warpers(config), draws]
    method = None if whole else decode
    model.generate = partial(model.generate, logits_processor=LogitsProcessorList(processors), custom_generate=method)
    names = ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    sampling = {name: getattr(config, name) for name in names}
    # The other settings are removed: transformers would penalise twice, and warn that the rest has no effect.
    config.update(do_sample=False, **dict.fromkeys(sampling.keys() - {"do_sample"}))
    try:
        with without_own_settings(model):
            yield
    finally:
        config.update(**sampling)
        del model.generate
    watch.refuse_undefined()
