"""Settings under which gradients cannot be measured, or advantages not be placed on tokens."""

from __future__ import annotations

from typing import Any

#: Settings under which the backward pass is not watched: training is TRL's as it is, and nothing can be measured.
UNWATCHED = {
    "fp16": "small component gradients would vanish; bf16 does not",
    "torch_compile": "compiled layers cannot be watched",
    "torch_compile_backend": "compiled layers cannot be watched",
    "torch_compile_mode": "compiled layers cannot be watched",
    "use_liger_kernel": "fused layers cannot be watched",
}


def check_measurable(training: dict[str, Any], placements: set[str], arm: str) -> None:
    """Refuse settings under which component gradients would be wrong or impossible.

    Raises
    ------
    ValueError
    """
    kwargs = training.get("gradient_checkpointing_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("use_reentrant"):
        reason = second_pass(training, placements)
        if reason:
            raise ValueError(
                f"training (arm {arm}): gradient_checkpointing_kwargs: use_reentrant: true allows one backward pass, "
                f"and {reason} takes more to be measured; set it to false, or gradients.every: off"
            )
    for name, reason in UNWATCHED.items():
        if training.get(name):
            raise ValueError(f"training (arm {arm}): {name}: {reason}; change it, or set gradients.every: off")


def check_single_rollouts(training: dict[str, Any], arm: str) -> None:
    """Refuse to compare completions with each other where each prompt has one, whose reward is its advantage.

    Raises
    ------
    ValueError
    """
    if training.get("num_generations") != 1:
        return
    for name, compares in (("scale_rewards", "batch"), ("multi_objective_aggregation", "normalize_then_sum")):
        if training.get(name) == compares:
            raise ValueError(
                f"training (arm {arm}): {name}: {compares} scales rewards, and with num_generations: 1 they are the "
                f"advantages as they are; leave it out, or set num_generations to 2 or more"
            )


def second_pass(training: dict[str, Any], placements: set[str]) -> str | None:
    """What asks for more than the training step's own backward pass to measure gradients, if anything."""
    if placements != {"all_tokens"}:
        return "a placement other than all_tokens"
    for name, ordinary in (("beta", 0), ("entropy_coef", 0), ("use_adaptive_entropy", False), ("num_iterations", 1)):
        if training.get(name, ordinary) != ordinary:
            return name
    accumulation = training.get("gradient_accumulation_steps", 1)
    return "steps_per_generation" if (training.get("steps_per_generation") or accumulation) > accumulation else None


def check_placeable(training: dict[str, Any], arm: str, component: str) -> None:
    """Refuse settings under which TRL asks for one advantage per completion, so that none can be placed on tokens.

    Raises
    ------
    ValueError
    """
    loss = training.get("loss_type")
    reason = None
    if training.get("off_policy_mask_threshold") is not None:
        reason = "off_policy_mask_threshold: keeps or drops a completion by the sign of its one advantage"
    elif loss == "vespo":
        reason = "loss_type: vespo weighs a completion by the sign of its one advantage"
    elif training.get("importance_sampling_level") == "sequence" and loss != "cispo":
        reason = "importance_sampling_level: sequence has one ratio a completion: a placement would change nothing"
    if reason:
        raise ValueError(
            f"training (arm {arm}): {reason}; set components.{component}.placement: all_tokens, or change the setting"
        )
