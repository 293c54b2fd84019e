"""Check that the layers of `lora.target_modules` are in a model and can be trained there.

The checks before a start call it if the model is on disk by then, and the jobs call it before they load the model.
Without it, peft would leave out a name that matches no layer, as long as another one matches.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import AutoConfig, AutoModelForCausalLM

from reward_ablation.config.sections.training import ALL_LINEAR
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.training.core.settings import lora_config

#: The value of `target_modules` with which peft takes all linear layers but the head.
ALL = "all-linear"
#: Most names of layers in one message: a free choice.
_NAMED = 12


def check_adapters(folder: Path, lora: Any, section: str) -> None:
    """Refuse adapters of layers that a model lacks, of its head, or, in section "sft.lora", of a tied embedding."""
    adapters = lora_config(lora)
    if adapters is None or adapters.target_modules == ALL_LINEAR:
        return
    key = f"{section}.target_modules"
    model = _empty(folder)
    advice = f"write a list of its layers, such as {_layers_of(model)}, or {ALL_LINEAR}"
    modules = [name for name, _ in model.named_modules()]
    names = adapters.target_modules
    for entry in [] if isinstance(names, str) else sorted(names or ()):
        if not any(name == entry or name.endswith(f".{entry}") for name in modules):
            raise StudyError(f"{key}: {entry}: the model has no such layer; {advice}")
    try:
        with torch.device("meta"):
            get_peft_model(model, adapters)
    except (ValueError, re.error) as error:
        raise StudyError(f"{key}: peft refuses it: {first_line(error)}; {advice}") from error
    if isinstance(model.get_output_embeddings(), LoraLayer):
        raise StudyError(f"{key}: matches the head, and TRL trains no adapter of it; leave the head out")
    # A run keeps its adapter apart. `checks.check_for_vllm` refuses this where vLLM samples.
    tied = model.config.get_text_config().tie_word_embeddings
    if section == "sft.lora" and tied and isinstance(model.get_input_embeddings(), LoraLayer):
        raise StudyError(
            f"{key}: an adapter of the embedding cannot be merged as it is trained, because the head shares the "
            "embedding's weight; leave the embedding out"
        )


def _empty(folder: Path) -> Any:
    """The model of a folder without its weights."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise StudyError(f"{folder}: no model can be built from config.json: {first_line(error)}") from error


def _layers_of(model: Any) -> str:
    """The last parts of the names of layers with a weight matrix, without the head and embeddings."""
    layers = [(name, each) for name, each in model.named_modules() if each is not model.get_output_embeddings()]
    layers = [(name, each) for name, each in layers if not isinstance(each, torch.nn.Embedding)]
    matrices = [name for name, each in layers if getattr(getattr(each, "weight", None), "ndim", 0) == 2]
    return ", ".join(sorted({name.rpartition(".")[2] for name in matrices})[:_NAMED])
