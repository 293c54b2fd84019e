"""Whether a run is about to be trained as its spec says: its processes, strategy, server, problems and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from trl import GRPOConfig

from reward_ablation.config.checks import second_pass
from reward_ablation.config.sections.launch import DDP
from reward_ablation.study.component_spec import contents_without_models
from reward_ablation.study.reward_files import file_digest
from reward_ablation.study.spec_parts import ComponentSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.launch.vllm_server import Engine
from reward_ablation.training.core.trainer import AblationTrainer


def check_processes(there: int, asked: int) -> None:
    """Refuse to train in another number of processes than the run is recorded with."""
    if there != asked:
        raise StudyError(
            f"launch: the run's number of processes is {asked}, and {there} run; start the training command by no "
            "launcher of your own, and without WORLD_SIZE and the like"
        )


def check_unchanged(component: ComponentSpec, parameters: dict[str, Any]) -> None:
    """Refuse a user's file, or what a parameter's path points to, that the run's spec has another digest of.

    `parameters` are all parameters of the component, also those that are no part of the spec. Of a model the workflow
    has a copy of its own, which is verified elsewhere.
    """
    contents = contents_without_models(component.function, parameters, Path.cwd())
    for name, content in contents.items():
        if content != component.contents.get(name):
            raise StudyError(f"{name}: {parameters[name]} has changed since the workflow was started; start it again")
    file = component.file
    if file and component.code and file_digest(Path(file), Path.cwd()) != component.code:
        raise StudyError(f"{file}: has changed, or what it imports, since the workflow was started; start it again")


def check_trainer(trainer: AblationTrainer, strategy: str, engine: Engine) -> None:
    """Refuse a trainer that would not train as the run's spec says, or not on samples of the model that it trains."""
    check_passes(trainer)
    check_strategy(trainer, strategy)
    if trainer.use_vllm:
        check_server(trainer, engine)
        check_for_vllm(trainer)


def check_passes(trainer: AblationTrainer) -> None:
    """Refuse to measure in several passes where TRL has chosen checkpointing that allows one, as it may."""
    args: Any = trainer.args
    reentrant = (args.gradient_checkpointing_kwargs or {}).get("use_reentrant")
    if not args.gradient_checkpointing or not reentrant or not (trainer.measure_every or trainer.whole_at):
        return
    # For samples of vLLM there are log-probabilities of the sampler, by which ratios are clipped.
    reason = second_pass(vars(args), set(trainer.placements.values())) or ("vLLM" if trainer.use_vllm else None)
    if reason:
        raise StudyError(
            f"gradients: {reason} takes more than one backward pass to be measured, and TRL checkpoints "
            "activations with use_reentrant: true, which allows one; set gradient_checkpointing: false, "
            "or gradients.every: off"
        )


def check_problems(config: GRPOConfig, there: int, problems: Path) -> None:
    """Refuse a training set that has fewer problems than one generation takes."""
    prompts = (config.generation_batch_size or 0) // (config.num_generations or 1)  # TRL has set both
    if there < prompts:
        raise StudyError(
            f"training: a generation takes {prompts} problems at once, and {problems} has {there}; give it more, or "
            "lower per_device_train_batch_size or steps_per_generation"
        )


def check_server(trainer: AblationTrainer, engine: Engine) -> None:
    """Refuse to generate on another run's vLLM server, which may have come to this one's port."""
    server = engine.server
    if server is None or not trainer.accelerator.is_main_process:
        return
    served = trainer.vllm_generation.vllm_client.model
    if served != server.model_name:
        raise StudyError(f"launch.vllm: the server at {server.url} serves {served}, not {server.model_name}")


def check_strategy(trainer: AblationTrainer, strategy: str) -> None:
    """Refuse to train by another strategy than the run's: accelerate can leave DeepSpeed out without a word."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    found = f"zero{plugin.zero_stage}" if plugin else DDP
    if found != strategy:
        raise StudyError(
            f"launch.strategy: the run's is {strategy}, and its processes were started with {found}; start the "
            "training command by no launcher of your own, and without ACCELERATE_ variables"
        )


def check_for_vllm(trainer: AblationTrainer) -> None:
    """Refuse a model that vLLM would not sample from as it is trained: with dropout, or an adapter on a tied head."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    for name, module in model.named_modules():
        rate = module.p if isinstance(module, torch.nn.Dropout) else getattr(module, "attention_dropout", 0.0)
        if isinstance(rate, float) and rate > 0:
            raise StudyError(
                f"training.disable_dropout: {name} has a dropout of {rate}, and what vLLM samples has none; set it to "
                "true, or train without launch.vllm"
            )
    if model.config.get_text_config().tie_word_embeddings and isinstance(model.get_input_embeddings(), LoraLayer):
        raise StudyError(
            "lora.target_modules: an adapter of the embedding, whose weight is the head's too, does not reach vLLM as "
            "it is trained; leave the embedding out, or train without launch.vllm"
        )
