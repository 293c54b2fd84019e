"""One run from start to finish: finish what an earlier attempt left, else train on from its last checkpoint."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from peft.tuners.lora import LoraLayer
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from reward_ablation.config.sections.launch import DDP
from reward_ablation.data.verify import verify_problems
from reward_ablation.models.device import gpu_kind
from reward_ablation.models.load import load_tokenizer
from reward_ablation.models.verify import verify_model
from reward_ablation.rewards.load import load_component
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.study.code_digest import component_modules, file_digest, module_digests
from reward_ablation.study.run_folder import WORK
from reward_ablation.study.run_spec import RunSpec
from reward_ablation.study.spec_parts import ComponentSpec
from reward_ablation.system.errors import PassingError, StudyError, storage_errors
from reward_ablation.system.files import sha256
from reward_ablation.training.around.attempts import Attempt
from reward_ablation.training.around.checkpoints import claim, resume_point, step_of
from reward_ablation.training.around.finish import clear_outputs, finish, finished, trained
from reward_ablation.training.around.interruption import Interruption, Stopped
from reward_ablation.training.around.keep_models import KeepModels
from reward_ablation.training.around.launch.engine import Engine
from reward_ablation.training.around.launch.longest_text import longest_text
from reward_ablation.training.around.launch.server_client import client_with
from reward_ablation.training.around.micro_batch import halve, halved, halvings
from reward_ablation.training.around.progress import ProgressCallback
from reward_ablation.training.around.resumed_state import load_state
from reward_ablation.training.around.tracking import prepare_wandb, tracker_settings
from reward_ablation.training.core.dataset import training_dataset
from reward_ablation.training.core.settings import OWN_ENGINE, grpo_config, lora_config
from reward_ablation.training.core.trainer import AblationTrainer


@dataclass(frozen=True)
class Start:
    """What there is to do: nothing, to finish a trained run, or to train on from a checkpoint or the beginning."""

    finished: bool = False
    trained: bool = False
    checkpoint: Path | None = None


def train_run(
    spec: str,
    code: str,
    model: Path,
    problems: Path,
    run_dir: Path,
    started: float | None = None,
    callbacks: tuple[TrainerCallback, ...] = (),
    engine: Engine = OWN_ENGINE,
    tracking: dict[str, Any] | None = None,
) -> None:
    """Train one run, or go on with it where an attempt of the same spec and code was interrupted.

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
        Gets rollouts.parquet, gradients.parquet, metrics.parquet, model/, the models that are kept on the way as
        model-stepN/ and, last, run.json.
    started : float, optional
        `time.perf_counter()` at the start of the process, for the record of its wall time.
    callbacks : tuple of TrainerCallback
        More callbacks for the trainer.
    engine : Engine
        How vLLM runs beside it, where the spec has it.
    tracking : dict, optional
        What experiment trackers are told of it: TRL's settings by name, and its `group`; none where there is none.

    Raises
    ------
    Stopped
        A signal, or the end of the Slurm job, stopped it; it has saved a checkpoint.
    StudyError
    """
    started = time.perf_counter() if started is None else started
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(run_dir / "tensorboard"))
    parsed = RunSpec.parse(spec)
    if parsed.gpus and gpu_kind() is None:
        raise PassingError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to train on the CPU")
    process = PartialState(cpu=parsed.gpus == 0)
    check_processes(process.num_processes, parsed.process_count)
    with storage_errors(run_dir):
        found = [prepare(run_dir, parsed, code, model, problems) if process.is_main_process else Start()]
        start: Start = broadcast_object_list(found)[0]
        if start.finished:
            return
        if not start.trained:
            train(parsed, model, problems, run_dir, start.checkpoint, started, callbacks, engine, tracking or {})
        if process.is_main_process:
            finish(run_dir)
    process.wait_for_everyone()


def check_processes(there: int, asked: int) -> None:
    """Refuse to train in another number of processes than the run is recorded with."""
    if there != asked:
        raise StudyError(
            f"launch: the run's number of processes is {asked}, and {there} run; start the training command by no "
            "launcher of your own, and without WORLD_SIZE and the like"
        )


def prepare(run_dir: Path, spec: RunSpec, code: str, model: Path, problems: Path) -> Start:
    """Find out what earlier attempts have left, and make the run's folder ready to go on."""
    verify_problems(problems)
    inputs = {"model": sha256(model / "model.json"), "problems": sha256(problems)}
    owner = {"spec": spec.content(), "code": code, "inputs": inputs}
    if finished(run_dir, owner):
        print(f"train: {run_dir} is trained already; to train it again, delete the folder", flush=True)
        return Start(finished=True)
    work = run_dir / WORK
    verify_model(model)
    claim(work, owner, module_digests("reward_ablation.training", *component_modules(spec.functions)))
    clear_outputs(run_dir)
    if trained(work):
        return Start(trained=True)
    return Start(checkpoint=resume_point(work))


def check_unchanged(component: ComponentSpec) -> None:
    """Refuse a user's file that is no longer the one that the run's spec has the digest of."""
    file = component.file
    if file and component.code and file_digest(Path(file), Path.cwd()) != component.code:
        raise StudyError(f"{file}: has changed, or what it imports, since the workflow was started; start it again")


def train(
    spec: RunSpec,
    model: Path,
    problems: Path,
    run_dir: Path,
    checkpoint: Path | None,
    started: float,
    callbacks: tuple[TrainerCallback, ...],
    engine: Engine,
    tracking: dict[str, Any],
) -> None:
    """Train to the last step and save the final model; see `train_run`."""
    work = run_dir / WORK
    interruption = Interruption()
    with interruption.watching():
        attempt = Attempt(work, step_of(checkpoint), started, spec)
        times = halvings(work)
        if PartialState().is_main_process:
            prepare_wandb(tracking, run_dir)
        trainer = build_trainer(spec, model, problems, work, tracker_settings(tracking), engine)
        for callback in (KeepModels(trainer, spec.keep_models), attempt, interruption, *callbacks):
            trainer.add_callback(callback)
        if checkpoint:
            load_state(trainer, checkpoint)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            if trainer.accelerator.is_main_process:
                attempt.write(ended="out of memory", to_step=trainer.state.global_step)
            micro_batch = halve(work, spec.training, times)
            raise Stopped(
                f"a GPU ran out of memory; the next attempt takes micro batches of {micro_batch}",
                trainer.state.global_step,
                trainer.state.max_steps,
            ) from error
        stopped = trainer.state.global_step < trainer.state.max_steps
        if stopped and interruption.reason is None:
            raise StudyError("training: TRL ended before the last step; see the log above")
        if not stopped:
            trainer.save_final()
        if trainer.accelerator.is_main_process:
            attempt.write(ended=interruption.reason if stopped else "done", to_step=trainer.state.global_step)
        if stopped:
            trainer.accelerator.wait_for_everyone()  # the first process to end has the launcher end the others
            raise Stopped(str(interruption.reason), trainer.state.global_step, trainer.state.max_steps)


def build_trainer(
    spec: RunSpec,
    model: Path,
    problems: Path,
    work: Path,
    trackers: dict[str, Any] | None = None,
    engine: Engine = OWN_ENGINE,
) -> AblationTrainer:
    """The trainer of one run, ready to train.

    Parameters
    ----------
    spec : RunSpec
        The run's; components in alphabetical order, as canonical JSON has them.
    work : Path
        Folder for checkpoints and parts.
    trackers : dict, optional
        TRL's settings of experiment trackers.
    engine : Engine
        How vLLM runs beside the run, where the spec has it.
    """
    components = {}
    for name, component in spec.components.items():
        components[name] = load_component(component.function, component.parameters, Path.cwd(), name)
        check_unchanged(component)
    tokenizer = load_tokenizer(model)
    tokenize_prompts([render_prompt("", spec.prompt)], tokenizer)  # a model without a chat template is told in one line
    dataset = training_dataset(problems, lambda question: render_prompt(question, spec.prompt))
    settings = halved({**(trackers or {}), **spec.training}, halvings(work))
    if spec.vllm and not spec.has_server:  # a server was started with it
        settings["vllm_max_model_length"] = longest_text(spec, model, problems)
    config = grpo_config(settings, work, spec.seed, on_cpu=spec.gpus == 0, vllm=spec.vllm, engine=engine)
    with client_with(engine.key):
        trainer = AblationTrainer(
            components=components,
            weights=spec.weights,
            placements={name: component.placement for name, component in spec.components.items()},
            parts=work / "parts",
            measure_every=spec.gradients.every,
            whole_at=spec.gradients.whole,
            backward=spec.gradients.backward,
            model=str(model),
            args=config,
            train_dataset=dataset,
            processing_class=tokenizer,
            peft_config=lora_config(spec.lora and spec.lora.model_dump()),
            callbacks=[ProgressCallback(list(components))],
        )
    trainer.remove_callback(PrinterCallback)
    check_strategy(trainer, spec.strategy)
    check_server(trainer, engine)
    if config.use_vllm:
        check_for_vllm(trainer)
    check_problems(config, len(dataset), problems)
    return trainer


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
    if engine.model_name is None or not trainer.accelerator.is_main_process:
        return
    served = trainer.vllm_generation.vllm_client.model
    if served != engine.model_name:
        raise StudyError(f"launch.vllm: the server at {engine.url} serves {served}, not {engine.model_name}")


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
