"""The supervised start: from demonstrations to a model folder, which appears whole with its record, or not at all.

The command of the rule `sft` calls it, and imports it only after its checks, because this imports torch and TRL.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from peft import PeftModel
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig

from reward_ablation.models.check import file_table, wanted
from reward_ablation.models.fetch import new_folder, record_model
from reward_ablation.models.generation_config import make_saveable
from reward_ablation.models.verify import FETCHED
from reward_ablation.sampling.context import context_of
from reward_ablation.sampling.prompts import Messages
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.sft.demonstrations import tokenized
from reward_ablation.sft.settings import sft_config
from reward_ablation.sft.trainer import Progress, StartTrainer
from reward_ablation.spec.run import SftSpec
from reward_ablation.study.code_digest import module_digests
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.digests import read_object
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256
from reward_ablation.training.around.checkpoints import claim, resume_point
from reward_ablation.training.around.interruption import Interruption, Stopped
from reward_ablation.training.core.settings import lora_config

Demonstrations = tuple[list[str | Messages], list[str]]  # prompts, and completions in their order

#: Tokens of the demonstration in `check_texts_apart`, and the part of their size by which rounding may change logits.
PROBE_LENGTH, MIXED = 32, 0.02


def fine_tune(
    spec: SftSpec,
    model: Path,
    problems: Path,
    demonstrations: Demonstrations,
    work: Path,
    output: Path,
    callbacks: tuple[TrainerCallback, ...] = (),
) -> None:
    """Train a model on demonstrations, from the start or from an interrupted attempt, and put the result in place.

    `problems` is the file of the `demonstrations`, for its digest, `work` the folder for checkpoints, `output` the path
    of the result's model.json. Raises Stopped if the training was stopped and saved a checkpoint.
    """
    inputs = {"model": sha256(model / FETCHED), "problems": sha256(problems)}
    code = deciding_digest("sft")
    modules = module_digests("reward_ablation.sft")
    claim(work, {"spec": spec.content(), "code": code, "inputs": inputs}, modules)
    trainer = build_trainer(spec, model, demonstrations, work)
    learn(trainer, resume_point(work), callbacks)
    origin = read_object(model / FETCHED, f"delete {model} and run the workflow again")
    with new_folder(output) as folder:
        save(trainer, model, folder)
        record_model(
            folder,
            file_table(folder),
            {"source": "sft", "id": origin["id"], "revision": origin["revision"], "inputs": inputs},
        )


def build_trainer(spec: SftSpec, model: Path, demonstrations: Demonstrations, work: Path) -> StartTrainer:
    """The trainer of a supervised start, ready to train."""
    tokenizer = load_tokenizer(model)
    rows = tokenized(*demonstrations, tokenizer, spec.prompt.date, spec.chat_template_kwargs)
    config = sft_config(spec.training, work, spec.seed, on_cpu=spec.device == "cpu")
    check_lengths(rows, config, context_of(model))
    disable_progress_bars()  # the log has a line for each step
    try:
        trainer = StartTrainer(
            model=str(model),
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=lora_config(spec.lora and spec.lora.model_dump()),
            callbacks=[Progress()],
        )
    except ValueError as error:
        raise StudyError(f"sft.training: TRL refuses it: {' '.join(str(error).split())}") from error
    if trainer.padding_free:
        check_texts_apart(trainer, max((row["input_ids"] for row in rows), key=len)[:PROBE_LENGTH])
    make_saveable(trainer.model)
    trainer.remove_callback(PrinterCallback)
    return trainer


def check_texts_apart(trainer: StartTrainer, ids: list[int]) -> None:
    """Refuse a model that reads the text before in a batch without padding. TRL would train it on joined texts."""
    model: Any = trainer.model
    model.eval()  # so that no dropout is drawn; training switches it on
    logits = []
    for before in (ids, ids[::-1]):
        batch = trainer.data_collator([{"input_ids": before}, {"input_ids": ids}])
        inputs = trainer._prepare_inputs({**batch, "use_cache": False})
        del inputs["labels"]
        with torch.no_grad(), trainer.compute_loss_context_manager():
            logits.append(model(**inputs).logits[0, len(ids) : 2 * len(ids)].float())
    if (logits[0] - logits[1]).norm() > MIXED * logits[0].norm():
        raise StudyError(
            f"sft.training.packing: {model.config.model_type} models read the demonstrations that are packed before "
            "another one as its beginning; leave packing and padding_free out"
        )


def check_lengths(rows: list[dict[str, list[int]]], config: SFTConfig, context: int | None = None) -> None:
    """Warn of demonstrations that TRL cuts or leaves out, which do not show how to end. Lengths are in tokens."""
    max_length, lengths = config.max_length, [len(row["input_ids"]) for row in rows]
    wrapped = config.packing and config.packing_strategy == "wrapped"
    longest = min(sum(lengths) if wrapped else max(lengths), max_length or sys.maxsize)
    if context is not None and longest > context:
        whose = "a text that packing_strategy: wrapped joins" if wrapped else "the longest demonstration"
        raise StudyError(
            f"sft.training.max_length: the model's context has {context} tokens, and {whose} takes {longest}; set "
            f"max_length to {context} or less{'' if wrapped else ', or take long demonstrations out'}"
        )
    if max_length is None or (config.packing and config.packing_strategy != "bfd"):
        return  # the other strategies put the rest of a demonstration into the next text
    ends_stay = config.truncation_mode == "keep_end" and not config.packing
    prompts = [row["completion_mask"].count(0) for row in rows]
    if ends_stay or not config.completion_only_loss:
        prompts = [0] * len(rows)  # no prompt is too long
    if min(prompts) >= max_length:
        raise StudyError(
            f"sft.training.max_length: {max_length}, and the shortest prompt has {min(prompts)} tokens; raise it"
        )
    left_out = sum(prompt >= max_length for prompt in prompts)
    cut = sum(length > max_length for length in lengths) - left_out
    told = f"warning: sft.training.max_length: %d of {len(rows)} demonstrations have"
    if cut:
        how = "and lose their beginning" if ends_stay else "and are cut there, their end with them"
        print(told % cut, f"more than {max_length} tokens {how}", flush=True)
    if left_out:
        print(told % left_out, f"{max_length} tokens or more before their completion, and are left out", flush=True)


def learn(trainer: StartTrainer, checkpoint: Path | None, callbacks: tuple[TrainerCallback, ...] = ()) -> None:
    """Train to the last step; see `fine_tune`."""
    interruption = Interruption()
    with interruption.watching():
        for callback in (interruption, *callbacks):
            trainer.add_callback(callback)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            raise StudyError(
                "sft: a GPU ran out of memory; halve sft.training.per_device_train_batch_size and double "
                "gradient_accumulation_steps, or lower max_length"
            ) from error
    state = trainer.state
    if state.global_step < state.max_steps:
        if interruption.reason is None:
            raise StudyError("sft: TRL ended before the last step; see the log above")
        raise Stopped(str(interruption.reason), state.global_step, state.max_steps)


def save(trainer: StartTrainer, model: Path, folder: Path) -> None:
    """Write the trained model with adapters merged, and copy the other files of the model that it started from."""
    trained = trainer.accelerator.unwrap_model(trainer.model)
    if isinstance(trained, PeftModel):
        trained = trained.merge_and_unload()
    trained.save_pretrained(folder)
    written = {path.name for path in folder.iterdir()}
    for name in wanted([path.name for path in model.iterdir()]):
        if name not in written and ".safetensors" not in name:
            shutil.copyfile(model / name, folder / name)
