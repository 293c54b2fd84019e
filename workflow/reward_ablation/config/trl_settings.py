"""Settings of TRL's trainers by TRL's own names, checked without importing TRL, and the batch sizes that follow.

The config checks `training` and `sft.training` here; planning and training take batch sizes and TRL's version. Each
config class of TRL that a study may set has a JSON schema, generated from the class (`make schemas`), so that a dry run
of a thousand arms need not import torch. A test compares each schema with the installed TRL.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator

from reward_ablation.config.base import HIGHEST_SEED, LARGEST_INT
from reward_ablation.system.errors import StudyError

#: The version of TRL whose private parts the trainers read. `pyproject.toml` and the locks in `envs/` have the same.
TRL = "1.16.0"

#: Why FSDP is refused, as `launch.strategy` and in TRL's settings.
NO_FSDP = "layers hold parts of their weights, of which gradients are not measured"

#: A text that is a number with an exponent. YAML reads such a number as text if it has no point or no sign.
_EXPONENT = re.compile(r"[-+]?[0-9.]*[0-9][0-9.]*[eE][-+]?[0-9]+")

_REMOTE_CODE = "no code of a model's repository is run"

#: Settings of all trainers that a config cannot set: the reason, or the key to set instead.
RESERVED = {
    "output_dir": "the folder is decided by the workflow",
    "use_cpu": "set launch.gpus: 0",
    "ignore_data_skip": "interrupted training continues with data that it has not seen",
    **dict.fromkeys(
        ("resume_from_checkpoint", "restore_callback_states_from_checkpoint"), "interrupted training resumes by itself"
    ),
    **dict.fromkeys(("logging_steps", "logging_strategy", "logging_first_step"), "every step is logged"),
    **dict.fromkeys(
        (
            *("eval_strategy", "do_eval", "eval_steps", "eval_delay", "eval_on_start", "eval_accumulation_steps"),
            *("eval_do_concat_batches", "eval_use_gather_object", "per_device_eval_batch_size", "batch_eval_metrics"),
            *("bf16_full_eval", "fp16_full_eval", "include_for_metrics", "label_names", "prediction_loss_only"),
            *("load_best_model_at_end", "metric_for_best_model", "greater_is_better", "do_predict"),
        ),
        "evaluation is a stage of its own: see evaluation",
    ),
    "do_train": "each run is trained",
    "disable_tqdm": "the log has a line for each step",
    "save_only_model": "without the optimiser's state, interrupted training cannot continue",
    "auto_find_batch_size": "it would train steps twice; set per_device_train_batch_size",
    **dict.fromkeys(
        ("push_to_hub", "hub_always_push", "hub_model_id", "hub_revision", "hub_strategy"),
        "upload the model's folder yourself",
    ),
    "enable_jit_checkpoint": "training that is told to stop saves a checkpoint by itself",
    "save_on_each_node": "all nodes share the results folder",
    "skip_memory_metrics": "the trainer's memory metrics are not kept",
    "length_column_name": "the data have no column of lengths",
    "local_rank": "the processes of a run are started by the workflow",
    "trust_remote_code": _REMOTE_CODE,
    "hub_token": "nothing is uploaded, and a config is no place for secrets; to download, set HF_TOKEN",
}

_AT_LEAST_1, _AT_LEAST_0, _ABOVE_0 = {"minimum": 1}, {"minimum": 0}, {"exclusiveMinimum": 0}
_FROM_0_TO_1 = {"minimum": 0, "maximum": 1}

#: Bounds on values that a setting's type allows, but with which a job fails or trains on nothing. They act by way of
#: the schemas, into which `make schemas` writes them.
BOUNDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations"), _AT_LEAST_1),
    **dict.fromkeys(("steps_per_generation", "generation_batch_size", "ref_model_sync_steps"), _AT_LEAST_1),
    **dict.fromkeys(("max_completion_length", "max_length"), _AT_LEAST_1),
    **dict.fromkeys(("temperature", "repetition_penalty", "num_train_epochs"), _ABOVE_0),
    **dict.fromkeys(("sapo_temperature_neg", "sapo_temperature_pos"), _ABOVE_0),
    **dict.fromkeys(("learning_rate", "weight_decay", "beta", "epsilon", "epsilon_high"), _AT_LEAST_0),
    **dict.fromkeys(("min_p", "top_entropy_quantile", "ref_model_mixup_alpha"), _FROM_0_TO_1),
    "top_p": {"exclusiveMinimum": 0, "maximum": 1},
    "save_strategy": {"enum": ["no", "steps", "epoch"]},  # without `best`, which needs TRL's evaluation
}

#: Arguments of a model's `from_pretrained` that model_init_kwargs may have. Others would train another model than the
#: one that was fetched and is evaluated (num_hidden_layers, quantization_config), or run code from elsewhere.
FOR_MODELS = ("dtype", "attn_implementation")


def check_version() -> None:
    """Refuse another TRL: its loss may store something new, or its private parts may differ, without an error."""
    try:
        installed = version("trl")
    except PackageNotFoundError:
        installed = "none"
    if installed.partition("+")[0] != TRL:
        raise StudyError(
            f"trl: version {installed} is installed, and this workflow needs {TRL}, whose private parts it reads; "
            f"run `make install`, or pip install trl=={TRL}"
        )


@cache
def schema_in(file: str) -> dict[str, Any]:
    """The JSON schema in a file beside this module."""
    return json.loads((files("reward_ablation.config") / file).read_text())


@dataclass(frozen=True)
class TrlSettings:
    """The settings of one config class of TRL."""

    #: Name of TRL's class.
    config: str
    #: The JSON schema generated from the class, beside this module.
    file: str
    #: Settings that a config cannot set: the reason, or the key to set instead.
    reserved: dict[str, str]
    #: Allowed values of settings that TRL declares as plain strings. TRL refuses other values only when it trains. They
    #: act by way of the schema, into which `make schemas` writes them.
    choices: dict[str, list[str]]
    #: Settings of earlier versions of TRL, with what is there instead.
    gone: dict[str, str] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the settings that a config may hold."""
        return schema_in(self.file)

    @cached_property
    def _validators(self) -> dict[str, Any]:
        from jsonschema import Draft202012Validator  # here, because only the check of a config needs it

        return {name: Draft202012Validator(rule) for name, rule in self.schema()["properties"].items()}

    def check(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings unchanged; raise a ValueError, which says what is allowed, for a wrong name or value."""
        for name, value in settings.items():
            if name in self.reserved:
                raise ValueError(f"{name}: not to be set here; {self.reserved[name]}")
            if name in self.gone:
                raise ValueError(f"{name}: TRL {TRL} has no such setting any more; {self.gone[name]}")
            if name not in self._validators:
                near = difflib.get_close_matches(name, self._validators, n=3)
                hint = f"did you mean {', '.join(near)}?" if near else "allowed: its fields, by TRL's own names"
                raise ValueError(f"{name}: no setting of TRL's {self.config}; {hint}")
            if next(self._validators[name].iter_errors(value), None):
                allowed = _allowed(self.schema()["properties"][name])
                hint = "; YAML reads 1e-6 as text, 1.0e-6 as a number" if _is_number(value) else ""
                raise ValueError(f"{name}: {value!r} is not allowed; allowed: {allowed}{hint}")
            if name != "chat_template_kwargs" and (text := next(_exponents(value, nested=False), None)):
                raise ValueError(f"{name}: {text!r} is a text; YAML reads 1e-6 as text, 1.0e-6 as a number")
            if name == "model_init_kwargs":
                _check_model_arguments(value or {})
            most = HIGHEST_SEED if name.endswith("seed") else LARGEST_INT
            if isinstance(value, int) and abs(value) > most:
                raise ValueError(f"{name}: {value} is not allowed; at most {most}")
        return settings


def _check_model_arguments(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if name not in FOR_MODELS:
            raise ValueError(
                f"model_init_kwargs.{name}: not to be set here; allowed: {', '.join(FOR_MODELS)}; other changes to the "
                "model belong into its folder's config.json, for training and evaluation alike"
            )
        if "/" in str(value):  # a repository of kernels
            raise ValueError(f"model_init_kwargs.{name}: {value}: no code of a repository is run")


def _exponents(value: Any, nested: bool = True) -> Iterator[str]:
    """Texts such as 1e-6 within a mapping or a list at any depth; without `nested`, `value` itself does not count."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _exponents(each)
    elif nested and isinstance(value, str) and _EXPONENT.fullmatch(value):
        yield value


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, str)


def _allowed(rule: dict[str, Any]) -> str:
    """The values that a setting's JSON schema allows, in words."""
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    bounds = [f"{words[bound]} {rule[bound]}" for bound in words if bound in rule]
    if "enum" in rule:
        allowed = ", ".join(map(str, rule["enum"]))
    elif "anyOf" in rule:
        allowed = " or ".join(_allowed(option) for option in rule["anyOf"])
    else:
        allowed = str(rule.get("type", "any value"))
    return ", ".join([allowed, *bounds])


_ONE_PROCESS = "the start is trained in one process, on launch.gpus: 0 or one GPU"
_OWN_TOKENS = "demonstrations are tokenised as GRPO's prompts are"

#: The settings of the supervised start.
SFT = TrlSettings(
    config="SFTConfig",
    file="sft_settings.json",
    reserved={
        **RESERVED,
        **dict.fromkeys(("seed", "data_seed"), "write it under sft.seed"),
        "remove_unused_columns": "the model takes token ids and labels alone",
        "eval_packing": RESERVED["eval_strategy"],
        **dict.fromkeys(
            ("report_to", "run_name", "project", "trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"),
            RESERVED["disable_tqdm"],
        ),
        "hub_private_repo": RESERVED["push_to_hub"],
        **dict.fromkeys(("dataset_text_field", "dataset_kwargs", "dataset_num_proc"), _OWN_TOKENS),
        "assistant_only_loss": f"{_OWN_TOKENS}; the loss is on completions, with completion_only_loss: false on all",
        **dict.fromkeys(("eos_token", "pad_token", "chat_template_path"), "they are the model's, as GRPO takes them"),
        **dict.fromkeys(("deepspeed", "fsdp", "fsdp_config", "accelerator_config", "parallelism_config"), _ONE_PROCESS),
    },
    choices={"loss_type": ["nll", "dft"], "packing_strategy": ["bfd", "bfd_split", "wrapped"]},
)

#: A config's `sft.training`.
SftSettings = Annotated[dict[str, Any], AfterValidator(SFT.check)]

#: The settings of GRPO training.
GRPO = TrlSettings(
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
        "max_completion_length is refused, or left out with data.train.too_long: drop"
    },
)

#: TRL's own default of max_completion_length.
COMPLETION_LENGTH = 512
#: Not TRL's default, sequence_mask, which drops a completion by the product of its tokens' ratios: the longer a
#: completion is, the more often it would be dropped.
IMPORTANCE_SAMPLING_MODE = "token_truncate"


def _checked_grpo(settings: dict[str, Any]) -> dict[str, Any]:
    """Refuse names and values that `trl.GRPOConfig` does not take, or that no run can be trained with."""
    GRPO.check(settings)
    if (settings.get("num_generations", 1) or 0) < 1:  # TRL's type has null, and its code fails with it
        raise ValueError("num_generations: completions of one prompt, at least 1; with 1, the reward is the advantage")
    if (steps := settings.get("max_steps", -1)) < 1 and steps != -1:
        raise ValueError("max_steps: a run takes at least 1 step; leave it out to train by num_train_epochs")
    if settings.get("max_completion_length", COMPLETION_LENGTH) is None:
        raise ValueError("max_completion_length: null would let a completion go on for ever; give a number of tokens")
    return settings


#: A config's `training`, of the study or of an arm.
GrpoSettings = Annotated[dict[str, Any], AfterValidator(_checked_grpo)]

#: TRL's settings of experiment trackers, which decide no result and are in no spec.
TRACKING = {"report_to", "run_name", "project", "hub_private_repo"}
TRACKING |= {"trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"}


def without_tracking(training: dict[str, Any]) -> dict[str, Any]:
    """Training settings without the settings of trackers."""
    return {name: value for name, value in training.items() if name not in TRACKING}


def tracking_in(training: dict[str, Any]) -> dict[str, Any]:
    """The settings of trackers; empty if no tracker is switched on."""
    chosen = {name: value for name, value in training.items() if name in TRACKING}
    return {} if chosen.get("report_to") in (None, "none", [], ["none"]) else chosen


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of one run's batches, with TRL's defaults. Several settings of TRL set one size: checks look here."""

    micro_batch: int  # completions of a micro-batch, in each process
    accumulation: int  # micro-batches of an optimiser step, in each process
    generated: int  # micro-batches that are generated at once, in each process: TRL's steps_per_generation
    iterations: int  # how often a generation is trained on
    processes: int
    setting: str  # the setting that decides `generated`

    @classmethod
    def of(cls, training: Mapping[str, Any], processes: int) -> BatchSizes:
        """The sizes by TRL's settings, as written in a config or as TRL has completed them."""
        micro_batch = training.get("per_device_train_batch_size", 8)
        accumulation = training.get("gradient_accumulation_steps", 1)
        generated, setting = accumulation, "gradient_accumulation_steps"
        if training.get("steps_per_generation"):
            generated, setting = training["steps_per_generation"], "steps_per_generation"
        elif batch := training.get("generation_batch_size"):
            generated, setting = batch // max(1, micro_batch * processes), "generation_batch_size"
        return cls(micro_batch, accumulation, generated, training.get("num_iterations", 1), processes, setting)

    @property
    def rows(self) -> int:
        """Completions that each process generates at once."""
        return self.micro_batch * self.generated

    @property
    def completions(self) -> int:
        """Completions that all processes generate at once: TRL's generation_batch_size."""
        return self.rows * self.processes

    @property
    def for_one_step(self) -> bool:
        """Whether each optimiser step has one generation of its own, and trains on it once."""
        return self.generated == self.accumulation and self.iterations == 1
