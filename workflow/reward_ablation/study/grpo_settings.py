"""Training settings by TRL's own names, checked without importing TRL.

`grpo_settings.json` is a JSON schema generated from `trl.GRPOConfig` (`make schemas`), so that
a dry run of a thousand arms need not import torch. A test holds it against the installed TRL.
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

from reward_ablation.study.sections.launch import NO_FSDP

#: Settings that the workflow itself decides, with the place where the user says so.
RESERVED = {
    "output_dir": "the run's folder is decided by the workflow",
    "seed": "write it under seeds",
    "data_seed": "write it under seeds",
    "reward_weights": "weights are written under arms",
    "use_cpu": "set launch.gpus: 0",
    "resume_from_checkpoint": "an interrupted run resumes by itself",
    "ignore_data_skip": "a resumed run goes on with the data that it has not seen",
    "restore_callback_states_from_checkpoint": "an interrupted run resumes by itself",
    "remove_unused_columns": "components need the data's columns",
    "logging_steps": "every step is logged",
    "logging_strategy": "every step is logged",
    "eval_strategy": "evaluation is a stage of its own: see evaluation",
    "do_eval": "evaluation is a stage of its own: see evaluation",
    "log_completions": "rollouts.parquet has every completion",
    "disable_tqdm": "the log has a line for each step",
    "save_only_model": "without the optimiser's state an interrupted run cannot go on",
    "auto_find_batch_size": "it would train steps twice; set per_device_train_batch_size",
    "push_to_hub": "upload the run's model folder yourself",
    "hub_token": "nothing is uploaded, and a config is no place for secrets; to download, set HF_TOKEN",
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
            "use_transformers_continuous_batching",
            "use_transformers_paged",
            "transformers_continuous_batching_config",
        ),
        "its draws do not follow the seeds; for faster rollouts set launch.vllm",
    ),
}


#: TRL's own default of max_completion_length.
COMPLETION_LENGTH = 512
#: Not TRL's default: sequence_mask drops a completion by the product of its tokens' ratios, the longer the more often.
IMPORTANCE_SAMPLING_MODE = "token_truncate"


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of the settings that a config may hold."""
    return json.loads((files("reward_ablation.study") / "grpo_settings.json").read_text())


@cache
def _validators() -> dict[str, Draft202012Validator]:
    return {name: Draft202012Validator(rule) for name, rule in schema()["properties"].items()}


def check_training_settings(settings: dict[str, Any]) -> None:
    """Refuse names and values that `trl.GRPOConfig` does not take.

    Raises
    ------
    ValueError
        Naming the setting, what is wrong, and what is allowed.
    """
    for name, value in settings.items():
        if name in RESERVED:
            raise ValueError(f"{name}: not to be set here; {RESERVED[name]}")
        if name not in _validators():
            near = difflib.get_close_matches(name, _validators(), n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "allowed: its fields, by TRL's own names"
            raise ValueError(f"{name}: no setting of TRL's GRPOConfig; {hint}")
        if next(_validators()[name].iter_errors(value), None):
            allowed = _allowed(schema()["properties"][name])
            hint = "; YAML reads 1e-6 as text, 1.0e-6 as a number" if _is_number(value) else ""
            raise ValueError(f"{name}: {value!r} is not allowed; allowed: {allowed}{hint}")
    _check_group(settings)
    if settings.get("max_completion_length", COMPLETION_LENGTH) is None:
        raise ValueError("max_completion_length: null would let a completion go on for ever; give a number of tokens")


def _check_group(settings: dict[str, Any]) -> None:
    generations = settings.get("num_generations")
    if generations is not None and generations < 1:
        raise ValueError("num_generations: completions of one prompt, at least 1; with 1 its reward is its advantage")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, str)


def _allowed(rule: dict[str, Any]) -> str:
    if "enum" in rule:
        return ", ".join(map(str, rule["enum"]))
    if "anyOf" in rule:
        return " or ".join(_allowed(option) for option in rule["anyOf"])
    return str(rule.get("type", "any value"))
