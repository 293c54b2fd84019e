"""Positions of padded prompts, for models that number tokens from the first column unless they are told."""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel

#: Types of models, as config.json names them, whose embedding of a position depends on the number of padding tokens
#: before it. TRL passes an attention mask alone. Relative positions and rotations are the same with any padding.
COUNTED_FROM_PADDING = frozenset({"biogpt", "ctrl", "gpt2", "gpt_bigcode", "gpt_neo", "openai-gpt", "xglm"})


def number_from_mask(model: torch.nn.Module) -> None:
    """Have a model of these types number the tokens of each row from its first real one."""
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
