"""From a run's spec to TRL's and peft's own config objects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import torch
from peft import LoraConfig
from transformers import TrainingArguments
from trl import GRPOConfig

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.run_settings import Vllm

Config = TypeVar("Config", bound=TrainingArguments)

#: TRL trains in bfloat16 with gradient checkpointing; a CPU gains from neither.
CPU_DEFAULTS: dict[str, Any] = {"bf16": False, "gradient_checkpointing": False, "dataloader_pin_memory": False}
#: Nor does Apple's GPU of two of these.
APPLE_DEFAULTS: dict[str, Any] = {"bf16": False, "dataloader_pin_memory": False}
#: Not TRL's default: sequence_mask drops a completion by the product of its tokens' ratios, the longer the more often.
IMPORTANCE_SAMPLING_MODE = "token_truncate"
#: TRL's and transformers' own defaults.
MICRO_BATCH, ACCUMULATION = 8, 1


def vllm_settings(vllm: Vllm) -> dict[str, Any]:
    """TRL's settings for rollouts by vLLM, as far as they decide numbers."""
    settings = {"use_vllm": True, "vllm_mode": vllm.mode, "vllm_importance_sampling_mode": IMPORTANCE_SAMPLING_MODE}
    if vllm.mode == "server":
        return settings
    return {**settings, "vllm_tensor_parallel_size": vllm.tensor_parallel_size}


def defaults(on_cpu: bool) -> dict[str, Any]:
    """Settings that differ from TRL's, on this machine's device."""
    if on_cpu:
        return CPU_DEFAULTS
    on_apple = torch.backends.mps.is_available() and not torch.cuda.is_available()
    return APPLE_DEFAULTS if on_apple else {}


def halved(settings: dict[str, Any], times: int) -> dict[str, Any]:
    """Training settings with the micro batch halved so many times, and as many more in a step and a generation."""
    factor = 2**times
    changes = {
        "per_device_train_batch_size": settings.get("per_device_train_batch_size", MICRO_BATCH) // factor,
        "gradient_accumulation_steps": settings.get("gradient_accumulation_steps", ACCUMULATION) * factor,
    }
    if settings.get("steps_per_generation") is not None:
        changes["steps_per_generation"] = settings["steps_per_generation"] * factor
    return {**settings, **changes}


def grpo_config(
    training: dict[str, Any], output_dir: Path, seed: int, on_cpu: bool, vllm: Vllm | None = None
) -> GRPOConfig:
    """TRL's config of one run.

    Parameters
    ----------
    training : dict
        The study's settings and the arm's overrides, by TRL's names, and those that change no number.
    output_dir : Path
        Where checkpoints go.
    seed : int
        Decides data order, initialisation and sampling.
    vllm : Vllm, optional
        Of the run's spec, where vLLM generates the rollouts.

    Raises
    ------
    StudyError
        TRL refuses a value, or a combination of values.
    """
    settings = {**defaults(on_cpu), **(vllm_settings(vllm) if vllm else {}), **training}
    single = settings.get("num_generations") == 1
    if single:  # TRL refuses it, and trains with it all the same
        settings["num_generations"] = completions_at_once(settings)
    config = trl_config(GRPOConfig, "training", settings, output_dir, seed, on_cpu)
    if single:
        config.num_generations = 1
    return config


def trl_config(
    kind: type[Config], section: str, settings: dict[str, Any], output_dir: Path, seed: int, on_cpu: bool
) -> Config:
    """A config object of TRL's, with a line a step in the log; a StudyError says what TRL refuses of the section."""
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
        raise StudyError(f"{section}: TRL's {kind.__name__} refuses it: {' '.join(str(error).split())}") from None


def completions_at_once(training: dict[str, Any]) -> int:
    """Completions that all processes generate at once, a number of generations that TRL takes; 1 is a StudyError."""
    micro_batches = training.get("steps_per_generation") or training.get("gradient_accumulation_steps", 1)
    of_process = training.get("per_device_train_batch_size", 8) * micro_batches
    batch = training.get("generation_batch_size") or of_process * int(os.environ.get("WORLD_SIZE", 1))
    if batch < 2:
        raise StudyError("training: num_generations: 1 with one completion at a time; raise steps_per_generation")
    return batch


def lora_config(lora: Any) -> LoraConfig | None:
    """Peft's config of the adapters, from a mapping or pairs by peft's names; None for full fine-tuning."""
    return LoraConfig(task_type="CAUSAL_LM", **dict(lora)) if lora else None
