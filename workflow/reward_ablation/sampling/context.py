"""The longest text that a model can read, and the prompts that leave no room for a whole completion.

Training, evaluation and the supervised start ask here, and a start before them: it refuses prompts by the rule that its
jobs have, and not after hours in a queue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

#: Names of rotary positions, and of tables of positions in GPT-2, GPT-J, OPT, BERT and their kin.
_POSITIONS = re.compile(r"rotary|(^|\.)(wpe|positions_embed|embed_positions|position_embeddings)(\.|$)")


def context_of(folder: Path) -> int | None:
    """Most tokens of a text that a model can read for certain; None if its config names none, or nothing limits it."""
    # State-space models and models with ALiBi have no positions, though some of their configs name a number. If rotary
    # positions change in batches beyond some length, this length is the largest number.
    import torch
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    config: Any = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    text = config.get_text_config()
    positions = getattr(text, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1 or getattr(text, "alibi", False):
        return None
    with torch.device("meta"):  # by its class: under ZeRO-3, `from_config` would cut the weights into parts
        kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        model = kind(config)
    parts = chain(model.named_modules(), model.named_parameters(), model.named_buffers())
    if not any(_POSITIONS.search(name) for name, _ in parts):
        return None
    # Llama 3.1's config names the extended length. That of Qwen2.5 with YaRN names the original length, and the factor.
    rope = getattr(text, "rope_parameters", None) or {}
    by_layer = [each for each in rope.values() if isinstance(each, dict)] or [rope]
    if limits := [limit for each in by_layer if (limit := _same_rotations(each, positions))]:
        return min(limits)
    extended = [
        (each.get("factor") or 1) * (each.get("original_max_position_embeddings") or positions) for each in by_layer
    ]
    return int(max(positions, *extended))


def _same_rotations(rope: dict[str, Any], positions: int) -> int | None:
    """Longest text, with its padding, that is rotated as shorter texts by this type of positions; None: any text."""
    match rope.get("rope_type"):
        case "longrope":
            return rope.get("original_max_position_embeddings") or positions
        case "dynamic":
            return positions
    return None


def too_long(prompts: Sequence[Sequence[int]], context: int | None, completion: int) -> list[int]:
    """Indices of the prompts that, with a completion of so many tokens, are longer than the model's context."""
    if context is None:
        return []
    return [place for place, prompt in enumerate(prompts) if len(prompt) + completion > context]


def describe_too_long(
    prompts: Sequence[Sequence[int]], places: Collection[int], context: int | None, completion: int
) -> str:
    """What a message says of prompts that are too long."""
    return (
        f"{len(places)} of {len(prompts)} prompts do not fit into the model's context of {context} tokens with a "
        f"completion of {completion}; the longest prompt has {max(map(len, prompts))}"
    )
