"""From a run's spec to TRL's and peft's own config objects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from peft import LoraConfig
from transformers import TrainingArguments
from trl import GRPOConfig

from reward_ablation.config.grpo_settings import IMPORTANCE_SAMPLING_MODE
from reward_ablation.models.device import gpu_kind
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.launch.engine import Engine

if TYPE_CHECKING:
    from reward_ablation.study.run_spec import VllmSpec

Config = TypeVar("Config", bound=TrainingArguments)

#: Defaults that differ from TRL's, for every run; a study may set each of them.
DEFAULTS: dict[str, Any] = {
    "report_to": "none",
    "save_total_limit": 2,  # the last one, and the one before in case that is damaged; disks are small
}
#: TRL trains in bfloat16 with gradient checkpointing; a CPU gains from neither.
CPU_DEFAULTS: dict[str, Any] = {"bf16": False, "gradient_checkpointing": False, "dataloader_pin_memory": False}
#: Nor does Apple's GPU of two of these.
APPLE_DEFAULTS: dict[str, Any] = {"bf16": False, "dataloader_pin_memory": False}


#: Where there is no server.
OWN_ENGINE = Engine()


def vllm_settings(vllm: VllmSpec, engine: Engine) -> dict[str, Any]:
    """TRL's settings for rollouts by vLLM.

    Parameters
    ----------
    vllm : VllmSpec
        Of the run's spec.
    engine : Engine
    """
    settings = {"use_vllm": True, "vllm_mode": vllm.mode, "vllm_importance_sampling_mode": IMPORTANCE_SAMPLING_MODE}
    if vllm.mode == "server":
        return {**settings, "vllm_server_base_url": engine.url, "vllm_group_port": engine.group_port}
    return {
        **settings,
        "vllm_tensor_parallel_size": vllm.tensor_parallel_size,
        "vllm_gpu_memory_utilization": engine.memory,
        "vllm_enable_sleep_mode": engine.sleep,
    }


def defaults(on_cpu: bool) -> dict[str, Any]:
    """Settings that differ from TRL's, on this machine's device."""
    return {**DEFAULTS, **(CPU_DEFAULTS if on_cpu else APPLE_DEFAULTS if gpu_kind() == "mps" else {})}


def grpo_config(
    training: dict[str, Any],
    output_dir: Path,
    seed: int,
    on_cpu: bool,
    vllm: VllmSpec | None = None,
    engine: Engine = OWN_ENGINE,
) -> GRPOConfig:
    """TRL's config of one run.

    Parameters
    ----------
    training : dict
        The study's settings and the arm's overrides, by TRL's names.
    output_dir : Path
        Where checkpoints go.
    seed : int
        Decides data order, initialisation and sampling.
    on_cpu : bool
    vllm : VllmSpec, optional
        Of the run's spec, where vLLM generates the rollouts.
    engine : Engine

    Raises
    ------
    StudyError
        TRL refuses a value, or a combination of values.
    """
    settings = defaults(on_cpu)
    if vllm:
        settings |= vllm_settings(vllm, engine)
    settings |= training
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
    """A config object of TRL's, with a line a step in the log.

    Raises
    ------
    StudyError
        TRL refuses a value, or a combination of values, of that section of the study.
    """
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
    """Completions that all processes generate at once: a number of generations that TRL takes, whatever the batch.

    Raises
    ------
    StudyError
        It is one, which TRL does not take.
    """
    micro_batches = training.get("steps_per_generation") or training.get("gradient_accumulation_steps", 1)
    of_process = training.get("per_device_train_batch_size", 8) * micro_batches
    batch = training.get("generation_batch_size") or of_process * int(os.environ.get("WORLD_SIZE", 1))
    if batch < 2:
        raise StudyError("training: num_generations: 1 with one completion at a time; raise steps_per_generation")
    return batch


def lora_config(lora: dict[str, Any] | None) -> LoraConfig | None:
    """Peft's config of the adapters; None for full fine-tuning."""
    return LoraConfig(task_type="CAUSAL_LM", **lora) if lora else None
