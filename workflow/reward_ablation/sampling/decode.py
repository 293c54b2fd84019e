"""Decoding in which rows that have ended leave the batch, and new rows may take their places.

transformers decodes all rows of a batch until the last one has ended, and runs a prompt as often as it is sampled. Here
a group's prompt runs once, and few positions are decoded behind the end of a completion.

Training without vLLM calls `decode`, unless a batch must stay whole. Evaluation without vLLM steps a `Batch` itself, so
that waiting requests can join it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, GenerationConfig, LogitsProcessorList
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from reward_ablation.sampling.draws import SampleByRow

#: Rows leave once this share of the present batch has ended. In evaluation, others join once this share of the set
#: size is free. Each time the cache of the whole batch is copied, and a join also runs prompts: so not for each row.
LEAVING, JOINING = 1 / 8, 1 / 4


class Batch:
    """Rows that a model decodes together, each with the token of largest score. A `custom_generate` for transformers.

    Sampling is so, too: the processor `SampleByRow` leaves only the drawn token. `generate` then returns the batch
    after its prefill. A row ends with an end token or after `max_new_tokens`. The scores that a processor gives to a
    row must not depend on other rows or on earlier calls, nor on the number of columns where rows join; only
    `SampleByRow` is told which rows are left.

    By row, `number` is the caller's number of the row, `drawn` counts its new tokens, and `running` says whether it has
    not ended. If the batch is `divisible`, rows can leave. A model with a cache of another kind keeps all its rows to
    the end. If the batch is `open`, rows can join as well, because each layer has a cache, and none is cut to a window.
    """

    def __init__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: Any,
        generation_config: GenerationConfig,
        **inputs: Any,
    ):
        self.model, self.ids, self.processors, self.inputs = model, input_ids, logits_processor, inputs
        self.config = generation_config
        self.ends = torch.tensor(generation_config.eos_token_id, device=input_ids.device).reshape(-1)
        self.limit, self.padding = generation_config.max_new_tokens, generation_config.pad_token_id
        self.number = torch.arange(len(input_ids), device=input_ids.device)
        self.drawn, self.running = torch.zeros_like(self.number), torch.ones_like(self.number, dtype=torch.bool)
        cache: Any = inputs.get("past_key_values")
        layers = {type(layer) for layer in cache.layers} if type(cache) is DynamicCache else set()
        in_cache = not model._is_stateful  # whether all that the model remembers is in the cache
        self.divisible = in_cache and bool(layers) and layers <= {DynamicLayer, DynamicSlidingWindowLayer}
        by_row = {name for name, value in inputs.items() if torch.is_tensor(value)}
        self.open = self.divisible and layers == {DynamicLayer} and by_row <= {"attention_mask", "position_ids"}
        self._prefill()
        # openai-gpt is given a cache, and keeps nothing there.
        self.open = self.open and all(layer.is_initialized for layer in cache.layers)

    def _prefill(self) -> None:
        """Run the model on the prompts: on equal ones once, if its cache can be copied to their rows."""
        if not self.divisible:
            self._run(self.ids)
            return
        rows = torch.cat([self.ids, self.inputs["attention_mask"]], dim=1).cpu().numpy()
        prompts: dict[bytes, int] = {}
        copies = [prompts.setdefault(row.tobytes(), len(prompts)) for row in rows]  # number of each row's prompt
        first = self.number.new_tensor([copies.index(prompt) for prompt in prompts.values()])
        self._change_inputs(lambda _, value: value[first])
        self._run(self.ids[first])
        self._select(self.number.new_tensor(copies))

    def _run(self, ids: Tensor, new: int | None = None) -> None:
        """Find the logits that follow the ids, of which only the `new` last ones are not in the cache yet."""
        inputs = self.model.prepare_inputs_for_generation(
            ids, next_sequence_length=new, is_first_iteration=new is None, **self.inputs
        )
        outputs = self.model(**inputs, return_dict=True)
        self.inputs = self.model._update_model_kwargs_for_generation(outputs, self.inputs)
        self.logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32)

    def _select(self, rows: Tensor) -> None:
        """Let the logits and what the model remembers be those of these rows, of which one may come several times."""
        self.logits = self.logits[rows]
        self._change_inputs(lambda _, value: value[rows])
        self.inputs["past_key_values"].batch_select_indices(rows)

    def _change_inputs(self, change: Callable[[str, Tensor], Tensor]) -> None:
        changed = {name: change(name, value) for name, value in self.inputs.items() if torch.is_tensor(value)}
        self.inputs = {**self.inputs, **changed}

    def step(self) -> list[tuple[int, list[int]]]:
        """Draw a token for each row, and return number and completion of the rows that end with it."""
        scores: Tensor = self.processors(cast(LongTensor, self.ids), cast(FloatTensor, self.logits))
        tokens = scores.argmax(-1).where(self.running, self.padding)
        self.ids = torch.cat([self.ids, tokens[:, None]], dim=1)
        self.drawn += 1
        ended = self.running & (torch.isin(tokens, self.ends) | (self.drawn == self.limit))
        self.running = self.running & ~ended
        rows = ended.nonzero()[:, 0].tolist()
        completions = [(int(self.number[row]), self.ids[row, -int(self.drawn[row]) :].tolist()) for row in rows]
        left = int(self.running.sum())
        if self.divisible and len(self.ids) - left >= LEAVING * len(self.ids):
            self._leave(self.running.nonzero()[:, 0])
        if left:
            self._run(self.ids, new=1)
        return completions

    def _leave(self, rows: Tensor) -> None:
        """Keep only these rows."""
        self.ids, self.number, self.drawn = self.ids[rows], self.number[rows], self.drawn[rows]
        self.running = self.running[rows]
        self._select(rows)
        for processor in self.processors:
            if isinstance(processor, SampleByRow):
                processor.keep(rows)

    def another(self, ids: Tensor, mask: Tensor, processors: LogitsProcessorList) -> Batch:
        """Start a batch of new prompts for this one, which must be open. Not by `generate`, which takes longer."""
        cache = DynamicCache(config=self.model.config.get_text_config(decoder=True))
        inputs = {**self.inputs, "attention_mask": mask, "past_key_values": cache}
        if "position_ids" in inputs:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        return Batch(self.model, ids, processors, None, self.config, **inputs)

    def join(self, other: Batch) -> None:
        """Add the rows of another batch, and drop columns that are padding in all rows. Both must be open."""
        width = max(batch.ids.shape[1] - batch._unused() for batch in (self, other))
        for batch in (self, other):
            batch._pad_left(width - batch.ids.shape[1])
        for name in ("ids", "logits", "number", "drawn", "running"):
            setattr(self, name, torch.cat([getattr(self, name), getattr(other, name)]))
        self._change_inputs(lambda name, value: torch.cat([value, other.inputs[name]]))
        for own, new in zip(self.inputs["past_key_values"].layers, other.inputs["past_key_values"].layers, strict=True):
            own.keys, own.values = torch.cat([own.keys, new.keys]), torch.cat([own.values, new.values])
        for own, new in zip(self.processors, other.processors, strict=True):
            if isinstance(own, SampleByRow):
                own.join(new.numbers)

    def _unused(self) -> int:
        """Number of columns on the left that are padding in all rows."""
        return int(self.inputs["attention_mask"].any(0).int().argmax())

    def _pad_left(self, columns: int) -> None:
        """Add columns of padding on the left. A negative number takes columns away."""
        self.ids = pad(self.ids, (columns, 0), value=self.padding)
        self._change_inputs(lambda _, value: pad(value, (columns, 0)))
        for layer in self.inputs["past_key_values"].layers:
            layer.keys, layer.values = pad(layer.keys, (0, 0, columns, 0)), pad(layer.values, (0, 0, columns, 0))


def decode(model: Any, input_ids: Tensor, generation_config: GenerationConfig, **arguments: Any) -> Tensor:
    """A `custom_generate` that decodes a `Batch` to its end: token ids, padded on the right."""
    batch = Batch(model, input_ids, generation_config=generation_config, **arguments)
    completions: dict[int, list[int]] = {}
    while len(completions) < len(input_ids):
        completions.update(batch.step())
    output = input_ids.new_full((len(input_ids), max(map(len, completions.values()))), generation_config.pad_token_id)
    for row, ids in completions.items():
        output[row, : len(ids)] = input_ids.new_tensor(ids)
    return torch.cat([input_ids, output], dim=1)
