"""TRL's settings of GRPO training: which of them a study may set, and to which values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from reward_ablation.config.sections.launch import NO_FSDP
from reward_ablation.config.trl_settings import RESERVED, TrlSettings

SETTINGS = TrlSettings(
    config="GRPOConfig",
    file="grpo_settings.json",
    reserved={
        **RESERVED,
        "output_dir": "the run's folder is decided by the workflow",
        **dict.fromkeys(("seed", "data_seed"), "write it under seeds"),
        "reward_weights": "weights are written under arms",
        "remove_unused_columns": "components need the data's columns",
        "num_completions_to_print": "rollouts.parquet has every completion",
        **dict.fromkeys(
            ("log_completions", "log_completions_hub_repo", "log_multimodal", "log_unique_prompts"),
            "rollouts.parquet has every completion",
        ),
        "num_generations_eval": RESERVED["eval_strategy"],
        "max_tool_calling_iterations": "completions call no tools",
        "train_sampling_strategy": "the seed orders the prompts; shuffle_dataset: false keeps the data's order",
        "label_smoothing_factor": "GRPO's loss has no labels",
        "include_num_input_tokens_seen": "tokens are counted anyway, as num_tokens",
        "average_tokens_across_devices": "loss_type says over what the loss is averaged",
        **dict.fromkeys(("use_vllm", "vllm_mode"), "set launch.vllm.mode"),
        "vllm_tensor_parallel_size": "set launch.vllm.tensor_parallel_size",
        "vllm_gpu_memory_utilization": "set launch.vllm.gpu_memory_utilization",
        "vllm_enable_sleep_mode": "set launch.vllm.enable_sleep_mode",
        **dict.fromkeys(
            ("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port"),
            "each run starts a server of its own; set launch.vllm.mode: server",
        ),
        "deepspeed": "set launch.strategy: zero2 or zero3",
        **dict.fromkeys(("fsdp", "fsdp_config"), f"{NO_FSDP}; launch.strategy: zero3 does the same job"),
        **dict.fromkeys(("accelerator_config", "parallelism_config"), "set launch.gpus and launch.strategy"),
        **dict.fromkeys(
            (
                *("use_transformers_continuous_batching", "transformers_continuous_batching_config"),
                "use_transformers_paged",
            ),
            "its draws do not follow the seeds; for faster rollouts set launch.vllm",
        ),
    },
    choices={
        "loss_type": ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
        "scale_rewards": ["group", "batch", "none"],
        "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
        "importance_sampling_level": ["token", "sequence"],
        "vllm_importance_sampling_mode": ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"],
    },
    gone={
        "max_prompt_length": "no prompt is cut: a prompt that does not fit into the model's context with "
        "max_completion_length is refused, or left out with data.train.too_long: drop",
    },
)

#: TRL's own default of max_completion_length.
COMPLETION_LENGTH = 512
#: Not TRL's default, sequence_mask, which drops a completion by the product of its tokens' ratios: the longer a
#: completion is, the more often it would be dropped.
IMPORTANCE_SAMPLING_MODE = "token_truncate"


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Refuse names and values that `trl.GRPOConfig` does not take, or that no run can be trained with."""
    SETTINGS.check(settings)
    generations = settings.get("num_generations")
    if generations is not None and generations < 1:
        raise ValueError("num_generations: completions of one prompt, at least 1; with 1, the reward is the advantage")
    if settings.get("max_steps") == 0:
        raise ValueError("max_steps: a run takes at least 1 step; leave it out to train by num_train_epochs")
    if settings.get("max_completion_length", COMPLETION_LENGTH) is None:
        raise ValueError("max_completion_length: null would let a completion go on for ever; give a number of tokens")
    return settings


#: A config's `training`, of the study or of an arm.
GrpoSettings = Annotated[dict[str, Any], AfterValidator(_checked)]
