"""A run's trainer, built from the run's spec.

`training.around.run` calls it, with a subclass of the trainer that saves checkpoints. It is in the core because what a
spec becomes, such as the order of components, decides the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow.parquet as pq
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from reward_ablation.rewards.columns import json_columns, with_values
from reward_ablation.rewards.groups import OF_GROUPS
from reward_ablation.rewards.scoring import RewardFunction
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.interfaces import Combination, Sink
from reward_ablation.training.core.model import functional_dropout, number_from_mask
from reward_ablation.training.core.problems import training_problems
from reward_ablation.training.core.settings import grpo_config, halved, lora_config
from reward_ablation.training.core.trainer import AblationTrainer
from reward_ablation.training.core.whole_groups import WholeGroups, cuts_groups

if TYPE_CHECKING:
    from reward_ablation.spec.run import RunSpec

Trainer = TypeVar("Trainer", bound=AblationTrainer)


def build_config(spec: RunSpec, output_dir: Path, surroundings: dict[str, Any], halvings: int = 0) -> GRPOConfig:
    """TRL's config of a run; `halvings` says how many times the micro batch is halved.

    `surroundings` are settings that change no number, by TRL's names. The spec's settings take precedence over them.
    """
    settings = halved({**surroundings, **spec.training}, halvings)
    return grpo_config(settings, output_dir, spec.seed, on_cpu=spec.gpus == 0, vllm=spec.vllm)


def with_whole_groups(
    components: dict[str, RewardFunction], spec: RunSpec, config: GRPOConfig
) -> dict[str, RewardFunction]:
    """Components that get whole groups, if the layout cuts groups and they may compare completions.

    A user's function, whose name has a colon, may always. Built-in components that score each completion by itself are
    called as they are: more processes then share their work.
    """
    rows = config.per_device_train_batch_size * (config.steps_per_generation or 1)  # TRL has set both
    size = config.num_generations or 1
    if not cuts_groups(rows, size, config.world_size):
        return components
    groups = WholeGroups(size)
    functions = {name: spec.components[name].function for name in components}
    return {
        name: groups.scoring(component) if ":" in functions[name] or functions[name] in OF_GROUPS else component
        for name, component in components.items()
    }


def _prepared(trainer: Trainer) -> Trainer:
    """The trainer without printed lines, with positions that padding does not change, without dropout if so set."""
    trainer.remove_callback(PrinterCallback)
    args, model = cast(GRPOConfig, trainer.args), cast(torch.nn.Module, trainer.model)
    if args.disable_dropout:  # TRL switches off only modules whose class is dropout
        for module in model.modules():
            vars(module).update(dict.fromkeys(functional_dropout(module), 0.0))
    for each in (model, trainer.ref_model):
        if each is not None:
            number_from_mask(trainer.accelerator.unwrap_model(each))
    return trainer


def build_trainer(
    kind: type[Trainer],
    spec: RunSpec,
    components: dict[str, RewardFunction],
    model: Path,
    problems: Path,
    config: GRPOConfig,
    sink: Sink,
    callbacks: Sequence[TrainerCallback] = (),
    combination: Combination | None = None,
) -> Trainer:
    """The trainer of a run, of the class `kind`, ready to train. Without a `combination`, TRL combines the components.

    The spec has its components in alphabetical order, as in canonical JSON, and `components` has their functions in the
    same order.
    """
    tokenizer = load_tokenizer(model)
    rows, _ = training_problems(spec, model, tokenizer, problems, config.max_completion_length or 0)
    texts = json_columns(pq.read_schema(problems))
    decoding = {name: with_values(component, texts) for name, component in components.items()}
    trainer = kind(
        components=with_whole_groups(decoding, spec, config),
        weights=dict(spec.weights),
        combination=combination,
        placements={name: component.placement for name, component in spec.components.items()},
        date=spec.prompt.date,
        sink=sink,
        measure_every=spec.gradients.every,
        whole_at=spec.gradients.whole,
        by_completion=spec.gradients.backward == "by_completion",
        model=str(model),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora_config(spec.lora),
        callbacks=[*callbacks],
    )
    return _prepared(trainer)
