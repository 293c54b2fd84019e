"""One run from start to finish: claim the folder, train or resume, move the outputs into place."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback

from reward_ablation.data.prompts import render_prompt, tokenize_prompts
from reward_ablation.gram import similarity, store
from reward_ablation.models.load import load_tokenizer
from reward_ablation.rewards.load import load_component
from reward_ablation.study.errors import StudyError
from reward_ablation.study.files import write_json, write_parquet
from reward_ablation.study.sections.prompt import Prompt
from reward_ablation.training.checkpoints import claim, step_of
from reward_ablation.training.dataset import training_dataset
from reward_ablation.training.metrics import metrics_table
from reward_ablation.training.parts import drop_parts_after, join_large_parts, join_parts
from reward_ablation.training.progress import ProgressCallback
from reward_ablation.training.record import run_record
from reward_ablation.training.rollouts import rollout_schema
from reward_ablation.training.settings import grpo_config, lora_config
from reward_ablation.training.trainer import AblationTrainer

#: Folder of an unfinished run: checkpoints, and the parts of its tables.
WORK = ".work"

#: Tables of arrays, with their columns.
ARRAYS = {
    "sample_grams": store.GRAM_SCHEMA,
    "sample_gram_rows": store.ROW_SCHEMA,
    "projections": store.PROJECTION_SCHEMA,
}


def train_run(
    spec: str,
    code: str,
    model: Path,
    problems: Path,
    run_dir: Path,
    started: float | None = None,
    callbacks: tuple[TrainerCallback, ...] = (),
) -> None:
    """Train one run, or go on with it where a checkpoint of the same spec and code is left.

    Parameters
    ----------
    spec : str
        Canonical JSON of all that decides the run, its seed included.
    code : str
        Digest of the training code.
    model : Path
        Folder of the base model.
    problems : Path
        Prepared training set.
    run_dir : Path
        Gets rollouts.parquet, gradients.parquet, metrics.parquet, model/ and, last, run.json.
    started : float, optional
        `time.perf_counter()` at the start of the process, for the record of its wall time.
    callbacks : tuple of TrainerCallback
        More callbacks for the trainer.
    """
    started = time.perf_counter() if started is None else started
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(run_dir / "tensorboard"))
    work = run_dir / WORK
    parsed = json.loads(spec)
    if parsed["gpus"] and not torch.cuda.is_available():
        raise StudyError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to train on the CPU")
    with PartialState(cpu=parsed["gpus"] == 0).main_process_first():  # of several processes, the first one wipes
        checkpoint = claim(work, spec, code)
        drop_parts_after(work / "parts", step_of(checkpoint))
    trainer = build_trainer(parsed, model, problems, work, run_name="-".join(run_dir.parts[-2:]))
    for callback in callbacks:
        trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    trainer.save_model(str(work / "model"))
    if trainer.accelerator.is_main_process:
        move_into_place(trainer, run_dir)
        wall_seconds = time.perf_counter() - started
        inputs = {"model": model / "model.json", "problems": problems}
        steps = trainer.state.global_step
        record = run_record(spec, code, inputs, steps, step_of(checkpoint), wall_seconds, run_dir)
        write_json(record, run_dir / "run.json")
        shutil.rmtree(work)
    trainer.accelerator.wait_for_everyone()


def build_trainer(spec: dict[str, Any], model: Path, problems: Path, work: Path, run_name: str) -> AblationTrainer:
    """The trainer of one run, ready to train.

    Parameters
    ----------
    spec : dict
        The run's spec with its seed; components in alphabetical order, as canonical JSON has them.
    work : Path
        Folder for checkpoints and parts.
    run_name : str
        For experiment trackers.
    """
    components = {}
    for name, component in spec["components"].items():
        components[name] = load_component(component["function"], component["parameters"], Path.cwd())
        components[name].__name__ = name  # TRL names the metric by it
    prompt = Prompt.model_validate(spec["prompt"])
    tokenizer = load_tokenizer(model)
    tokenize_prompts([render_prompt("", prompt)], tokenizer)  # a model without a chat template is told in one line
    settings = {"run_name": run_name, **spec["training"]}
    trainer = AblationTrainer(
        components=components,
        weights=spec["weights"],
        placements={name: component["placement"] for name, component in spec["components"].items()},
        parts=work / "parts",
        measure_every=spec["gradients"]["every"],
        whole_at=spec["gradients"]["whole"],
        model=str(model),
        args=grpo_config(settings, work, spec["seed"], on_cpu=spec["gpus"] == 0),
        train_dataset=training_dataset(problems, lambda question: render_prompt(question, prompt)),
        processing_class=tokenizer,
        peft_config=lora_config(spec["lora"]),
        callbacks=[ProgressCallback(list(components))],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def move_into_place(trainer: AblationTrainer, run_dir: Path) -> None:
    """Join the parts and move tables and model to their final names."""
    work = run_dir / WORK
    trainer.finish_writing()
    join_parts(work / "parts", "rollouts", rollout_schema(list(trainer.components)), run_dir / "rollouts.parquet")
    join_parts(work / "parts", "gradients", similarity.SCHEMA, run_dir / "gradients.parquet")
    for name, schema in ARRAYS.items():
        join_large_parts(work / "parts", name, schema, run_dir / f"{name}.parquet")
    for path in (work / "parts").glob("gradients_step_*.npz"):
        os.replace(path, run_dir / path.name)
    write_parquet(metrics_table(trainer.state.log_history), run_dir / "metrics.parquet")
    (work / "model" / "training_args.bin").unlink(missing_ok=True)  # a pickle; run.json says it all
    shutil.rmtree(run_dir / "model", ignore_errors=True)
    os.replace(work / "model", run_dir / "model")
