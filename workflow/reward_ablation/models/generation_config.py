"""The generation config of a base model: a check, and the settings in it that no run and no evaluation uses.

`check` calls the check when a model is fetched. A run names the unused settings in its log; it and the supervised start
have the config changed if transformers would not save it. `sampling.generation_config` has what they use of it. It is
apart, because nothing here changes a token.
"""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Any

from reward_ablation.sampling.generation_config import generating_model, read_generation_config
from reward_ablation.sampling.tokenizer import GENERATION_CONFIG
from reward_ablation.system.errors import StudyError, first_line

#: Settings that a study decides, and settings that change no token: names of tokens, caches, the form of the output.
_NOT_NAMED = {
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "do_sample", "max_length", "max_new_tokens"),
    *("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id", "transformers_version"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len", "prefill_chunk_size", "compile_config"),
    *("disable_compile", "low_memory", "output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_lookbehind"),
    *("assistant_confidence_threshold", "target_lookbehind"),
}
#: Settings that vLLM reads from the file, too.
_OF_VLLM = {"presence_penalty", "frequency_penalty"}
#: Settings that ask for nothing if they are 1. Each setting asks for nothing if it is None, 0, False or an empty list.
_OFF_AT_ONE = {
    *("num_beams", "num_beam_groups", "num_return_sequences", "length_penalty", "encoder_repetition_penalty"),
    *("typical_p", "guidance_scale"),
}


def ignored_settings(folder: Path) -> str | None:
    """One line with the settings of a model's generation config that have no effect here; None if there are none."""
    from transformers import GenerationConfig

    known = (vars(GenerationConfig()).keys() | _OF_VLLM) - _NOT_NAMED
    asked = [
        f"{name}: {reprlib.repr(value)}"
        for name, value in sorted(vars(read_generation_config(folder)).items())
        if name in known and not name.startswith("_") and value and not (name in _OFF_AT_ONE and value == 1)
    ]
    if not asked:
        return None
    return f"the model's {GENERATION_CONFIG} asks for {', '.join(asked)}; training and evaluation do not do so"


def check_generation_config(folder: Path, where: str) -> None:
    """Refuse a generation config that transformers cannot use, and print what of it is not used."""
    try:
        ends = read_generation_config(folder).eos_token_id
        line = ignored_settings(folder)
    except Exception as error:
        raise StudyError(f"{where}: transformers cannot use {GENERATION_CONFIG}: {first_line(error)}") from error
    if not all(end is None or isinstance(end, int) for end in (ends if isinstance(ends, list) else [ends])):
        raise StudyError(f"{where}: eos_token_id in {GENERATION_CONFIG} must be numbers of tokens, not {ends!r}")
    if line:
        print(f"warning: {where}: {line}", flush=True)


def make_saveable(model: Any) -> None:
    """Keep only the tokens of a config that transformers loads and does not save; nothing here uses more of it."""
    from transformers import GenerationConfig

    base = generating_model(model)
    config = base.generation_config
    try:
        config.validate(strict=True)
    except ValueError:
        tokens = {name: getattr(config, name) for name in ("eos_token_id", "pad_token_id", "bos_token_id")}
        base.generation_config = GenerationConfig(**tokens)
