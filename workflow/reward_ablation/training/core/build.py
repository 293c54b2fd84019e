"""From a run's spec to its trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from reward_ablation.rewards.columns import json_columns, with_values
from reward_ablation.rewards.scoring import RewardFunction
from reward_ablation.sampling.prompts import Messages, render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.combination import Combination
from reward_ablation.training.core.run_settings import RunSettings
from reward_ablation.training.core.settings import grpo_config, halved, lora_config
from reward_ablation.training.core.trainer import AblationTrainer
from reward_ablation.training.core.watched_trainer import Sink

Trainer = TypeVar("Trainer", bound=AblationTrainer)


def build_config(spec: RunSettings, output_dir: Path, surroundings: dict[str, Any], halvings: int = 0) -> GRPOConfig:
    """TRL's config of a run, with its micro batch halved so many times.

    `surroundings` are TRL's settings that change no number; the spec's settings win.
    """
    settings = halved({**surroundings, **spec.training}, halvings)
    return grpo_config(settings, output_dir, spec.seed, on_cpu=spec.gpus == 0, vllm=spec.vllm)


def training_dataset(problems: Path, render: Callable[[str], str | Messages]) -> Dataset:
    """Prepared problems as TRL takes them: `prompt`, by `render` from a question, `problem_id`, and other columns."""
    rows = pq.read_table(problems).to_pylist()
    return Dataset.from_list([{"prompt": render(row["question"]), "problem_id": row.pop("id"), **row} for row in rows])


def build_trainer(
    kind: type[Trainer],
    spec: RunSettings,
    components: dict[str, RewardFunction],
    model: Path,
    problems: Path,
    config: GRPOConfig,
    sink: Sink,
    callbacks: Sequence[TrainerCallback] = (),
    combination: Combination | None = None,
) -> Trainer:
    """The trainer of a run, of a class `kind`, ready to train.

    Parameters
    ----------
    spec : RunSettings
        Components in alphabetical order, as canonical JSON has them.
    components : dict of str to callable
        The spec's components, by name in the same order.
    model : Path
        Folder of the base model.
    problems : Path
        Prepared training set, Parquet of the problem schema.
    combination : Combination, optional
        How the components are combined, where it is not TRL's way.

    Raises
    ------
    StudyError
        The tokenizer is missing, or does not take the prompts.
    """
    render = partial(render_prompt, prompt=spec.prompt)
    tokenizer = load_tokenizer(model)
    tokenize_prompts([render("")], tokenizer)  # refuses a model without a chat template in one line
    texts = json_columns(pq.read_schema(problems))
    trainer = kind(
        components={name: with_values(component, texts) for name, component in components.items()},
        weights=dict(spec.weights),
        combination=combination,
        placements={name: component.placement for name, component in spec.components.items()},
        sink=sink,
        measure_every=spec.gradients.every,
        whole_at=spec.gradients.whole,
        by_completion=spec.gradients.backward == "by_completion",
        model=str(model),
        args=config,
        train_dataset=training_dataset(problems, render),
        processing_class=tokenizer,
        peft_config=lora_config(spec.lora),
        callbacks=[*callbacks],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
