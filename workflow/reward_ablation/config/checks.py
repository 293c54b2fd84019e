"""Checks across sections of the config: what would make results wrong or gradients unmeasured, or what TRL refuses.

`study.resolve` calls them once the arms are known, because no section sees the others or the arms. A `check_...` raises
a ValueError, `key: what is wrong; what is allowed`; a `..._warnings` returns lines and refuses nothing. `training` are
the study's settings with an arm's overrides. `placements` say on which tokens the components' advantages act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reward_ablation.config.designs import Arm, arms_here, key_of_arm
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.training import Lora
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import (
    COMPLETION_LENGTH,
    GRPO,
    IMPORTANCE_SAMPLING_MODE,
    BatchSizes,
    without_tracking,
)

#: Settings with which a run measures nothing, as TRL trains by its own backward pass; with reasons.
UNWATCHED = {
    "fp16": "small component gradients would vanish; bf16 does not",
    **dict.fromkeys(
        ("torch_compile", "torch_compile_backend", "torch_compile_mode"), "compiled layers cannot be watched"
    ),
    "use_liger_kernel": "fused layers cannot be watched",
}

#: Sampling parameters of vLLM that TRL sets itself, or that each request has of its own: what to do instead.
NOT_FOR_VLLM = {
    "seed": "the completions of a prompt would all be the same; each has a seed of its own, made from seeds",
    "n": "num_generations says how many completions a prompt gets",
    "max_tokens": "set max_completion_length",
    "logprobs": "TRL asks for those of the sampled tokens, to compare them with the trainer's",
}

#: Arguments of transformers' `generate` that change the logits of each row by itself, or nothing (`use_cache`). Others
#: do nothing here (length_penalty), or draw otherwise than by each rollout's own random numbers (num_beams).
FOR_TRANSFORMERS = {"min_new_tokens", "no_repeat_ngram_size", "bad_words_ids", "sequence_bias", "suppress_tokens"}
FOR_TRANSFORMERS |= {"begin_suppress_tokens", "exponential_decay_length_penalty", "use_cache"}

#: Arguments of vLLM's SamplingParams that TRL has no setting for: generation_kwargs may have them.
FOR_VLLM = {"presence_penalty", "frequency_penalty", "bad_words", "ignore_eos", "min_tokens", "stop", "stop_token_ids"}
FOR_VLLM |= {"logit_bias", "allowed_token_ids"}
#: The component function that rewards nothing: its score is a random number, by a hash of seed, problem and text.
CONTROL_FUNCTION = "random"
#: Arguments of a tokenizer's `apply_chat_template` that are not variables of the template.
OF_THE_CALL = {"conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt"}
OF_THE_CALL |= {"continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_tensors"}
OF_THE_CALL |= {"return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"}


def check_measurable(training: dict[str, Any], arm: str) -> None:
    """Refuse settings with which a run would measure nothing."""
    for name, reason in UNWATCHED.items():
        if training.get(name):
            instead = "set gradients.every: off, without whole"
            raise ValueError(f"training (arm {arm}): {name}: {reason}; change it, or {instead}")


def check_second_pass(
    training: dict[str, Any], placements: set[str], lora: Lora | None, launch: Launch, arm: str
) -> None:
    """Refuse a second backward pass under reentrant checkpointing, which TRL chooses for adapters in ZeRO-3."""
    by_trl = lora and launch.strategy == "zero3"
    checkpoints = training.get("gradient_checkpointing", launch.gpus > 0)  # off by default on CPUs
    if not checkpoints or not (by_trl or _is_reentrant(training)):
        return
    sizes = BatchSizes.of(training, launch.process_count)
    # With vLLM, TRL always clips ratios to log-probabilities of an earlier pass.
    if reason := "launch.vllm" if launch.vllm else _second_pass_setting(training, placements, sizes):
        what = "gradient_checkpointing_kwargs: use_reentrant: true"
        if by_trl:
            what = "gradient_checkpointing: with lora and launch.strategy: zero3 it"
        raise ValueError(
            f"training (arm {arm}): {what} allows one backward pass, and measuring with {reason} takes more; set it to "
            "false, or gradients.every: off, without whole"
        )


def _is_reentrant(training: dict[str, Any]) -> bool:
    return bool((training.get("gradient_checkpointing_kwargs") or {}).get("use_reentrant"))


def _second_pass_setting(training: dict[str, Any], placements: set[str], sizes: BatchSizes) -> str | None:
    """A setting by which gradients need passes of their own: it adds a term to the loss, or ratios other than 1."""
    if placements != {"all_tokens"}:
        return "a placement other than all_tokens"
    for name, harmless in (("beta", 0), ("entropy_coef", 0), ("use_adaptive_entropy", False), ("num_iterations", 1)):
        if training.get(name, harmless) != harmless:
            return name
    # If the number of micro-batches of a step is no multiple of those generated at once, some steps train on a batch
    # that was generated in an earlier step. TRL clips ratios to its older log-probabilities then.
    return sizes.setting if sizes.accumulation % max(1, sizes.generated) else None


def check_single_rollouts(training: dict[str, Any], arm: str) -> None:
    """Refuse to scale rewards over a batch if each prompt has only one completion, whose reward is its advantage."""
    if training.get("num_generations") != 1:
        return
    for name, value in (("scale_rewards", "batch"), ("multi_objective_aggregation", "normalize_then_sum")):
        if training.get(name) == value:
            raise ValueError(
                f"training (arm {arm}): {name}: {value} scales rewards, and with num_generations: 1 the "
                f"rewards are the advantages, unscaled; leave it out, or set num_generations to 2 or more"
            )


def check_placeable(training: dict[str, Any], arm: str, component: str) -> None:
    """Refuse settings with which TRL needs one advantage per completion, so that none can be placed on tokens."""
    loss = training.get("loss_type")
    reason = None
    if training.get("off_policy_mask_threshold") is not None:
        reason = "off_policy_mask_threshold: keeps or drops a completion by the sign of its one advantage"
    elif loss == "vespo":
        reason = "loss_type: vespo weighs a completion by the sign of its one advantage"
    elif training.get("importance_sampling_level") == "sequence" and loss != "cispo":  # cispo weighs log-probabilities
        reason = "importance_sampling_level: sequence has one ratio a completion: a placement would change nothing"
    if reason:
        raise ValueError(
            f"training (arm {arm}): {reason}; set components.{component}.placement: all_tokens, or change the setting"
        )


def check_launchable(training: dict[str, Any], lora: Lora | None, launch: Launch, arm: str) -> None:
    """Refuse settings that TRL would refuse only when the arm's runs train, or that make results wrong."""
    reason = _conflict_with_sampling(training, launch) or (_conflict_with_vllm(training, lora) if launch.vllm else None)
    reason = reason or _conflict_with_adapters(training, lora, launch)
    if reason:
        raise ValueError(f"training (arm {arm}): {reason}")


def _conflict_with_sampling(training: dict[str, Any], launch: Launch) -> str | None:
    """The first of `generation_kwargs` that does not fit how rollouts are drawn, with the reason; None if all fit."""
    for name in training.get("generation_kwargs") or {}:
        if name in ("max_new_tokens", "max_length"):
            reason = "set max_completion_length"
        elif name in GRPO.schema()["properties"]:
            reason = f"set {name} in training itself; TRL's log-probabilities follow that setting"
        elif launch.vllm and name not in FOR_VLLM:
            reason = NOT_FOR_VLLM.get(name, f"allowed with launch.vllm: {', '.join(sorted(FOR_VLLM))}")
        elif not launch.vllm and name not in FOR_TRANSFORMERS:
            reason = (
                "rollouts are drawn by temperature, top_p, top_k and min_p, each by its own seed; allowed beside them: "
                + ", ".join(sorted(FOR_TRANSFORMERS))
            )
        else:
            continue
        return f"generation_kwargs.{name}: not to be set here: {reason}"
    return None


def _conflict_with_vllm(training: dict[str, Any], lora: Lora | None) -> str | None:
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
    completion = training.get("max_completion_length", COMPLETION_LENGTH)
    whole = training.get("vllm_max_model_length")
    if whole is not None and whole <= completion:
        return (
            f"vllm_max_model_length: {whole} has no room for a prompt beside max_completion_length: {completion}; "
            "raise it"
        )
    return None


def _conflict_with_adapters(training: dict[str, Any], lora: Lora | None, launch: Launch) -> str | None:
    """A setting of checkpointing or of the reference model that fails with, or without, adapters; else None."""
    # In ZeRO-3 TRL itself chooses reentrant checkpointing.
    if lora and _is_reentrant(training) and launch.process_count > 1 and launch.strategy != "zero3":
        return (
            "gradient_checkpointing_kwargs: use_reentrant: true fails with lora in several processes; set it to false"
        )
    if training.get("sync_ref_model") and lora:
        return "sync_ref_model: with lora the reference model is the model without its adapters; set it to false"
    if training.get("sync_ref_model") and not training.get("beta"):
        return "sync_ref_model: with beta: 0 there is no reference model; set beta, or sync_ref_model: false"
    return None


def check_baseline_and_control(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse a baseline or a control that is not an arm, and a control that is the baseline."""
    for key, arm in (("baseline", study.baseline), ("control", study.control)):
        if arm is not None and arm not in arms:
            raise ValueError(f"{key}: unknown arm '{arm}'; {arms_here(arm, arms)}")
    if study.control == (study.baseline or next(iter(arms))):
        raise ValueError(
            f"control: '{study.control}' is the baseline, which the others are compared with; name another arm, or set "
            "baseline"
        )


def control_warnings(study: StudyConfig, arms: dict[str, Arm]) -> list[str]:
    """Warnings about a control that is rewarded for something, or trained with other settings than the baseline."""
    if study.control is None:
        return []
    control, baseline = arms[study.control], study.baseline or next(iter(arms))
    functions = {name: study.components[name].function for name, weight in control.weights.items() if weight}
    informative = [f"{name} ({function})" for name, function in functions.items() if function != CONTROL_FUNCTION]
    warnings = []
    if informative:
        warnings.append(
            f"control: arm {study.control} is trained on {', '.join(informative)}; a control is trained on components "
            f"with function: {CONTROL_FUNCTION} alone"
        )
    own, others = (without_tracking(study.training_of(arm)) for arm in (control, arms[baseline]))
    differing = sorted(name for name in own.keys() | others.keys() if own.get(name) != others.get(name))
    if differing:
        settings = ", ".join(f"training.{name}" for name in differing)
        warnings.append(
            f"control: arm {study.control} and the baseline {baseline} differ in {settings}; a control needs the "
            "baseline's settings, and as many steps"
        )
    return warnings


def check_scored(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse a component that no arm scores."""
    scored = {name for arm in arms.values() for name in study.scored_in(arm)}
    for name in study.components:
        if name not in scored:
            raise ValueError(
                f"components.{name}: scored: where_trained, and no arm has a weight on it; give an arm one, or take "
                "the component out"
            )


def check_arms(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse settings of an arm that do not go with its rollouts, placements, prompts, measuring or `keep_models`."""
    for name, arm in arms.items():
        settings, scored = study.training_of(arm), study.scored_in(arm)
        measured = study.gradients.every or study.gradients.whole
        check_single_rollouts(settings, name)
        if measured:
            check_measurable(settings, name)
        for component_name, component in scored.items():
            # A measured component has an advantage even without a weight.
            if component.placement != "all_tokens" and (arm.weights[component_name] or measured):
                check_placeable(settings, name, component_name)
        steps = int(settings.get("max_steps", -1))  # the schema takes 10.0 for a whole number
        if study.keep_models and 0 < steps <= study.keep_models:
            raise ValueError(
                f"keep_models: {study.keep_models} keeps no model of arm {name}, which ends at step {steps}, and the "
                "final model is kept anyway; lower it, or set it to 0"
            )
    check_prompts_alike(study, arms)


#: Settings that do nothing, in silence, by the starts of their names: what they need, and whether an arm has it.
_NEEDS: list[tuple[str, str, Callable[[dict[str, Any]], Any]]] = [
    ("warmup_steps", "another lr_scheduler_type than constant", lambda own: own.get("lr_scheduler_type") != "constant"),
    ("num_train_epochs", "max_steps: -1", lambda own: own.get("max_steps", -1) == -1),
    ("ref_model_", "sync_ref_model: true", lambda own: own.get("sync_ref_model")),
    ("sapo_", "loss_type: sapo", lambda own: own.get("loss_type") == "sapo"),
    ("vespo_", "loss_type: vespo", lambda own: own.get("loss_type") == "vespo"),
    ("vllm_", "launch.vllm", lambda own: own["launch.vllm"]),
]


def idle_warnings(study: StudyConfig, arms: dict[str, Arm], launches: dict[str, Launch]) -> list[str]:
    """A line, no error, for each setting that has no effect beside the others: finished runs may have it."""
    idle: dict[str, list[str]] = {}
    for arm in arms:
        own = {**study.training_of(arms[arm]), "launch.vllm": launches[arm].vllm}
        for start, needs, has in _NEEDS:
            for name in own if not has(own) else ():
                if name.startswith(start) and own[name]:
                    idle.setdefault(f"training.{name} has no effect without {needs}", []).append(arm)
    if not study.evaluation.samples:
        for name in sorted({"temperature", "top_p"} & study.evaluation.model_fields_set):
            idle[f"evaluation.{name} has no effect without evaluation.samples above 0"] = [*arms]
    return [line if len(of) == len(arms) else f"{line} (arm {', '.join(of[:4])})" for line, of in idle.items()]


def unreached_warnings(study: StudyConfig, arms: dict[str, Arm]) -> list[str]:
    """Warnings of arms that end before the last step of `gradients.whole`. Such runs may be finished: no error."""
    last, warnings = max(study.gradients.whole, default=0), []
    for name, arm in arms.items():
        steps = int(study.training_of(arm).get("max_steps", -1))
        if 0 < steps < last:
            warnings.append(f"gradients.whole: arm {name} ends at step {steps}, so it has no gradients of step {last}")
    return warnings


def check_prompts_alike(study: StudyConfig, arms: dict[str, Arm]) -> None:
    """Refuse an arm with prompts of its own, as all are judged on the same, and keys that are no template variables."""
    key = "chat_template_kwargs"
    for name, arm in arms.items():
        if key in arm.training and (arm.training[key] or {}) != (study.training.get(key) or {}):
            raise ValueError(
                f"{key_of_arm(study.arms, name)}.training.{key}: all arms are judged on the same prompts, and with "
                "this key the arm would be trained on others; set the key for the study, in training"
            )
    kwargs = study.training.get(key)
    arguments = sorted(OF_THE_CALL & {*(kwargs or ())})
    if arguments:
        raise ValueError(f"training.{key}.{arguments[0]}: not to be set here; only variables of the chat template are")
    if kwargs and not study.prompt.chat:
        raise ValueError(f"training.{key}: prompt.chat is false, so that there is no template; take one of the two out")


@contextmanager
def at_arm(study: StudyConfig, arm: str) -> Iterator[None]:
    """Name an arm of the config in the ValueErrors of a block, which begin with a key of the arm."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key_of_arm(study.arms, arm)}.{error}") from None


def checked_launches(study: StudyConfig, arms: dict[str, Arm]) -> dict[str, Launch]:
    """How each arm's runs are launched. An arm's override or settings that do not fit the launch are a ValueError."""
    launches = {}
    for name, arm in arms.items():
        try:
            launches[name] = study.launch.changed(arm.launch, arm.resources)
        except ValueError as error:
            raise ValueError(f"{key_of_arm(study.arms, name)}.launch.{error}") from None
        settings = study.training_of(arm)
        placements: set[str] = {component.placement for component in study.scored_in(arm).values()}
        check_launchable(settings, study.lora, launches[name], name)
        if study.gradients.every or study.gradients.whole:
            check_second_pass(settings, placements, study.lora, launches[name], name)
    return launches
