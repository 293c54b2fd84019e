"""Checks, before training, that a run's processes, strategy and problems are as in its spec.

`run` calls them in each process of the job: since the start's own checks, files may have changed, and somebody else's
launcher or variables may surround the job.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from peft.tuners.lora import LoraLayer
from trl import GRPOConfig

from reward_ablation.config.sections.launch import DDP
from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.model import find_dropout
from reward_ablation.training.core.trainer import AblationTrainer


def check_processes(running: int, expected: int) -> None:
    """Refuse to train in a number of processes other than the spec's."""
    if running != expected:
        raise StudyError(
            f"launch: the number of the run's processes must be {expected}, but is {running}; start the training "
            "command without a launcher of your own, and without variables such as WORLD_SIZE"
        )


def check_trainer(trainer: AblationTrainer, strategy: str) -> None:
    """Refuse a trainer that would not train as the run's spec says, or whose vLLM would sample from another model."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    started_with = f"zero{plugin.zero_stage}" if plugin else DDP
    if started_with != strategy:  # accelerate can leave DeepSpeed out without a warning
        raise StudyError(
            f"launch.strategy: the run's strategy is {strategy}, and its processes were started with {started_with}; "
            "start the training command without a launcher of your own, and without ACCELERATE_ variables"
        )
    if trainer.use_vllm:
        check_for_vllm(trainer)
        return
    found = find_dropout(trainer.accelerator.unwrap_model(trainer.model))
    if found and trainer.accelerator.is_main_process:
        print(
            f"train: {found[0]} has a dropout of {found[1]}, which is active while completions are sampled, as in TRL; "
            "evaluation has none; training.disable_dropout: true switches it off",
            flush=True,
        )


def check_problems(config: GRPOConfig, count: int, problems: Path) -> None:
    """Refuse a training set with fewer problems than one generation takes. `count` is the number that is trained on."""
    whole = pq.read_metadata(problems).num_rows
    if count < whole and config.process_index == 0:
        print(f"data.train.too_long: {whole - count} of {whole} problems are too long and left out", flush=True)
    prompts = (config.generation_batch_size or 0) // (config.num_generations or 1)  # TRL has set both
    if (rest := count % prompts) and count > prompts and not config.shuffle_dataset and config.process_index == 0:
        print(
            f"warning: training.shuffle_dataset: false: a generation takes {prompts} problems, and the last {rest} of "
            f"{count} are left out of each epoch; shuffle them, or change the number of problems",
            flush=True,
        )
    if count < prompts:
        left_out = f", {whole - count} too long ones left out" if count < whole else ""
        raise StudyError(
            f"training: a generation takes {prompts} problems at once, and {problems} has {count}{left_out}; add "
            "problems, or lower per_device_train_batch_size or steps_per_generation"
        )


def check_for_vllm(trainer: AblationTrainer) -> None:
    """Refuse a model that vLLM samples from in another form: one with dropout, or with an adapter on a tied head."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if found := find_dropout(model):
        raise StudyError(
            f"training.disable_dropout: {found[0]} has a dropout of {found[1]}, and vLLM samples without dropout; set "
            "disable_dropout to true, or train without launch.vllm"
        )
    if model.config.get_text_config().tie_word_embeddings and isinstance(model.get_input_embeddings(), LoraLayer):
        raise StudyError(
            "lora.target_modules: vLLM cannot get an adapter of the embedding as it is trained, because the head "
            "shares the embedding's weight; leave the embedding out, or train without launch.vllm"
        )
