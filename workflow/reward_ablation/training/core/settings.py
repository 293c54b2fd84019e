"""TRL's and peft's own config objects, from a run's spec.

`build` makes a run's config by it, `sft` that of the supervised start, and the checks before a start those of all runs.
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from peft import LoraConfig
from transformers import TrainingArguments
from trl import GRPOConfig

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from reward_ablation.spec.run import VllmSpec

Config = TypeVar("Config", bound=TrainingArguments)

#: By default TRL trains in bfloat16 with gradient checkpointing. Neither helps on a CPU. Pinned memory is for a GPU.
CPU_DEFAULTS: dict[str, Any] = {"bf16": False, "gradient_checkpointing": False, "dataloader_pin_memory": False}
#: On Apple's GPU, bfloat16 and pinned memory do not help either.
APPLE_DEFAULTS: dict[str, Any] = {"bf16": False, "dataloader_pin_memory": False}
#: Not TRL's default, `sequence_mask`, which drops a completion by the product of its tokens' ratios. Long completions
#: would be dropped more often than short ones.
IMPORTANCE_SAMPLING_MODE = "token_truncate"
#: Defaults of TRL and transformers for the micro batch and for gradient accumulation.
MICRO_BATCH, ACCUMULATION = 8, 1


def vllm_settings(vllm: VllmSpec) -> dict[str, Any]:
    """TRL's settings for rollouts by vLLM: only the settings that decide numbers."""
    settings = {"use_vllm": True, "vllm_mode": vllm.mode, "vllm_importance_sampling_mode": IMPORTANCE_SAMPLING_MODE}
    if vllm.mode == "server":
        return settings
    return {**settings, "vllm_tensor_parallel_size": vllm.tensor_parallel_size}


def defaults(on_cpu: bool) -> dict[str, Any]:
    """Our defaults for this machine's device, where they differ from TRL's."""
    if on_cpu:
        return CPU_DEFAULTS
    on_apple = torch.backends.mps.is_available() and not torch.cuda.is_available()
    return APPLE_DEFAULTS if on_apple else {}


def halved(settings: dict[str, Any], times: int) -> dict[str, Any]:
    """Training settings with the micro batch halved `times` times; a step and a generation keep their size."""
    factor = 2**times
    changes = {
        "per_device_train_batch_size": settings.get("per_device_train_batch_size", MICRO_BATCH) // factor,
        "gradient_accumulation_steps": settings.get("gradient_accumulation_steps", ACCUMULATION) * factor,
    }
    if settings.get("steps_per_generation") is not None:
        changes["steps_per_generation"] = settings["steps_per_generation"] * factor
    return {**settings, **changes}


def grpo_config(
    training: dict[str, Any], output_dir: Path, seed: int, on_cpu: bool, vllm: VllmSpec | None = None
) -> GRPOConfig:
    """TRL's config of one run; `vllm` is None where transformers generates the rollouts.

    `training` has the study's settings, the arm's overrides, and settings that change no number, by TRL's names.
    """
    settings = {**defaults(on_cpu), **(vllm_settings(vllm) if vllm else {}), **training}
    single = settings.get("num_generations") == 1
    if single:  # TRL's config refuses 1, but its trainer works with 1
        settings["num_generations"] = completions_at_once(settings)
    config = trl_config(GRPOConfig, "training", settings, output_dir, seed, on_cpu)
    if single:
        config.num_generations = 1
    return config


def trl_config(
    kind: type[Config], section: str, settings: dict[str, Any], output_dir: Path, seed: int, on_cpu: bool
) -> Config:
    """TRL's config object of class `kind`, which logs each step. An error of TRL's names the config's `section`."""
    # A spec writes 2.0 as 2, and torch and transformers refuse whole numbers as a momentum or a temperature.
    floats = {field.name for field in fields(kind) if "float" in str(field.type)}
    settings = {name: float(each) if name in floats and type(each) is int else each for name, each in settings.items()}
    try:
        return kind(
            output_dir=str(output_dir),
            seed=seed,
            use_cpu=on_cpu,
            logging_strategy="steps",
            logging_steps=1,
            disable_tqdm=True,
            **settings,
        )
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise StudyError(
            f"{section}: TRL's {kind.__name__} refuses these settings: {' '.join(str(error).split())}"
        ) from None


def completions_at_once(training: dict[str, Any]) -> int:
    """How many completions all processes generate at once: the group size that TRL's config gets in place of 1."""
    micro_batches = training.get("steps_per_generation") or training.get("gradient_accumulation_steps", 1)
    of_process = training.get("per_device_train_batch_size", 8) * micro_batches
    batch = training.get("generation_batch_size") or of_process * int(os.environ.get("WORLD_SIZE", 1))
    if batch < 2:
        raise StudyError(
            "training: num_generations: 1 needs two completions or more at a time; raise steps_per_generation"
        )
    return batch


def lora_config(lora: Any) -> LoraConfig | None:
    """Peft's config of the adapters, from a mapping or pairs with peft's names. None means full fine-tuning."""
    return LoraConfig(task_type="CAUSAL_LM", **dict(lora)) if lora else None
