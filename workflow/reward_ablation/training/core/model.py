"""What changes a model's outputs beside its weights: dropout, and how it numbers positions after padding.

`build` sets both as a run needs them. The checks before training, and `by_transformers`, ask whether there is dropout.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel

#: Types of models, as config.json names them, whose embedding of a position depends on the number of padding tokens
#: before it. TRL passes an attention mask alone. Relative positions and rotations are the same with any padding.
COUNTED_FROM_PADDING = frozenset({"biogpt", "ctrl", "gpt2", "gpt_bigcode", "gpt_neo", "openai-gpt", "xglm"})


def functional_dropout(module: torch.nn.Module) -> dict[str, float]:
    """Rates above 0, by attribute, of dropout that a module does by a function, such as `attention_dropout`."""
    rates = {name: value for name, value in vars(module).items() if "dropout" in name and isinstance(value, float)}
    return {name: rate for name, rate in rates.items() if rate > 0}


def find_dropout(model: torch.nn.Module) -> tuple[str, float] | None:
    """Name and rate of the first module with dropout; None if there is none."""
    for name, module in model.named_modules():
        rates = functional_dropout(module).values()
        if rate := module.p if isinstance(module, torch.nn.Dropout) else max(rates, default=0.0):
            return name, rate
    return None


def number_from_mask(model: torch.nn.Module) -> None:
    """Have a model of a type in `COUNTED_FROM_PADDING` number the tokens of each row from its first real one."""
    whole: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    if whole.config.model_type in COUNTED_FROM_PADDING:
        whole.register_forward_pre_hook(_with_positions, with_kwargs=True)


def _with_positions(
    _: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a forward pass with positions, unless `generate` has given them."""
    mask = named.get("attention_mask")
    if named.get("position_ids") is not None or mask is None:
        return arguments, named
    return arguments, {**named, "position_ids": (mask.long().cumsum(-1) - 1).clamp(min=0)}
