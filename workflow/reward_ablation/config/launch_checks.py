"""Training settings that do not go with how a run is launched: with vLLM, with DeepSpeed, or with several processes."""

from __future__ import annotations

from typing import Any

from reward_ablation.config.checks import second_pass
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH, IMPORTANCE_SAMPLING_MODE, SETTINGS
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.training import Lora

#: What TRL itself asks vLLM for, or each request has of its own.
NOT_FOR_VLLM = {
    "seed": "the completions of a prompt would all be the same; each has a seed of its own, from seeds",
    "n": "num_generations says how many completions a prompt gets",
    "max_tokens": "set max_completion_length",
    "logprobs": "the sampled tokens' are asked for, to compare them with the trainer's",
}

#: Arguments of transformers' generate that say how tokens are drawn: here each rollout has random numbers of its own.
NOT_FOR_TRANSFORMERS = {
    **dict.fromkeys(
        ("do_sample", "num_beams", "num_return_sequences", "penalty_alpha"),
        "rollouts are sampled, each by its own seed",
    ),
    "stop_strings": "TRL's call of generate has no tokenizer to find them by",
    **dict.fromkeys(
        (
            "prompt_lookup_num_tokens",
            "top_h",
            "typical_p",
            "epsilon_cutoff",
            "eta_cutoff",
            "watermarking_config",
            "renormalize_logits",
        ),
        "rollouts are drawn by temperature, top_p, top_k and min_p",
    ),
}

#: What vLLM's SamplingParams take that TRL has no setting for.
FOR_VLLM = {"presence_penalty", "frequency_penalty", "bad_words", "ignore_eos", "min_tokens", "stop", "stop_token_ids"}
FOR_VLLM |= {"logit_bias", "allowed_token_ids"}


def check_launchable(training: dict[str, Any], lora: Lora | None, launch: Launch, arm: str) -> None:
    """Refuse settings that TRL refuses for such runs only once they train, or with which their results are wrong.

    Parameters
    ----------
    training : dict
        The study's settings and the arm's overrides.
    lora : Lora or None
    launch : Launch
        The arm's.
    arm : str
        Its name.

    Raises
    ------
    ValueError
    """
    reason = _against_generation(training, launch) or (_against_vllm(training, lora) if launch.vllm else None)
    reason = reason or _against_lora(training, lora, launch) or _against_reference(training, lora)
    if reason:
        raise ValueError(f"training (arm {arm}): {reason}")


def check_second_pass(
    training: dict[str, Any], placements: set[str], lora: Lora | None, launch: Launch, arm: str
) -> None:
    """Refuse to measure by a second backward pass what TRL trains with reentrant gradient checkpointing.

    It switches to that by itself where adapters are trained under ZeRO-3, and checkpoints on GPUs by default.

    Raises
    ------
    ValueError
    """
    checkpointing = training.get("gradient_checkpointing", launch.gpus > 0)
    if not (lora and launch.strategy == "zero3" and checkpointing):
        return
    reason = "launch.vllm" if launch.vllm else second_pass(training, placements)
    if reason:
        raise ValueError(
            f"training (arm {arm}): gradient_checkpointing: with lora and launch.strategy: zero3 it allows one "
            f"backward pass, and {reason} takes more to be measured; set it to false, or gradients.every: off"
        )


def _against_generation(training: dict[str, Any], launch: Launch) -> str | None:
    """What of generation_kwargs does not go with how rollouts are drawn."""
    kwargs = training.get("generation_kwargs")
    for name in kwargs if isinstance(kwargs, dict) else ():
        reason = (NOT_FOR_VLLM if launch.vllm else NOT_FOR_TRANSFORMERS).get(name)
        if name in ("max_new_tokens", "max_length"):
            reason = "set max_completion_length"
        elif name in SETTINGS.schema()["properties"]:
            reason = f"set {name} in training itself, which TRL's log-probabilities go by"
        elif launch.vllm and name not in FOR_VLLM:
            reason = reason or f"with launch.vllm these are: {', '.join(sorted(FOR_VLLM))}"
        if reason:
            return f"generation_kwargs.{name}: not to be set here: {reason}"
    return None


def _against_vllm(training: dict[str, Any], lora: Lora | None) -> str | None:
    if training.get("vllm_importance_sampling_correction") is False:
        return (
            "vllm_importance_sampling_correction: without it nobody sees how far vLLM's probabilities are from the "
            "trainer's; leave it on, or take launch.vllm out"
        )
    if lora and lora.lora_dropout and not training.get("disable_dropout"):
        return (
            "disable_dropout: with launch.vllm rollouts have no dropout, and the trainer's log-probabilities of them "
            "would; set it to true, or lora.lora_dropout to 0"
        )
    mode = training.get("vllm_importance_sampling_mode", IMPORTANCE_SAMPLING_MODE)
    if training.get("loss_type") == "vespo" and mode not in ("token_truncate", "token_mask"):
        return (
            f"vllm_importance_sampling_mode: {mode}: loss_type: vespo with launch.vllm weighs tokens; "
            "set it to token_truncate or token_mask"
        )
    longest, room = training.get("max_completion_length", COMPLETION_LENGTH), training.get("vllm_max_model_length")
    if room is not None and room <= longest:
        return (
            f"vllm_max_model_length: {room} has no room for a prompt beside max_completion_length: {longest}; raise it"
        )
    return None


def _against_lora(training: dict[str, Any], lora: Lora | None, launch: Launch) -> str | None:
    kwargs = training.get("gradient_checkpointing_kwargs")
    reentrant = isinstance(kwargs, dict) and kwargs.get("use_reentrant")
    if lora and reentrant and launch.process_count > 1 and launch.strategy != "zero3":
        return (
            "gradient_checkpointing_kwargs: use_reentrant: true fails with lora in several processes; set it to false"
        )
    return None


def _against_reference(training: dict[str, Any], lora: Lora | None) -> str | None:
    if not training.get("sync_ref_model"):
        return None
    if lora is not None:
        return "sync_ref_model: with lora the reference is the model without its adapters; set it to false"
    if not training.get("beta"):
        return "sync_ref_model: with beta: 0 there is no reference model; set beta, or sync_ref_model: false"
    return None
