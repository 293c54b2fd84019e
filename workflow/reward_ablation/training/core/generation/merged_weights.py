"""Weights for vLLM of a model with LoRA adapters: the base and its adapter added up in a copy, one weight at a time.

TRL merges the adapters into the base, sends it, and takes them out again: w + d - d is not w in floating point, and the
frozen base would drift with each synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch import Tensor

#: Puts whole parameters in the place of slices: DeepSpeed's ZeRO-3 holds one on each process.
Gather = Callable[[list], AbstractContextManager]

_PREFIX, _BASE = "base_model.model.", ".base_layer."


@torch.no_grad()
def merged_weights(model: Any, gather: Gather) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of the model that the base and its adapters are together; the base is not written to.

    Parameters
    ----------
    model : PeftModel
        All its adapters are LoRA.
    gather : callable
        Context in which given parameters are whole.
    """
    adapted: dict[str, Any] = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    for name, weight in model.named_parameters():
        if model.prefix in name:
            continue
        layer = adapted.get(name.partition(_BASE)[0]) if name.endswith(f"{_BASE}weight") else None
        own = [part for part_name, part in layer.named_parameters() if model.prefix in part_name] if layer else []
        with gather([weight, *own]):
            merged = weight.data
            if layer is not None:
                for adapter in layer.active_adapters:
                    merged = merged + layer.get_delta_weight(adapter)  # float32 where the adapter is
            yield name.removeprefix(_PREFIX).replace(_BASE, "."), merged.to(weight.dtype)
