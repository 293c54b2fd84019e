"""One run from start to finish: finish a result that an earlier attempt left, or train on from its last checkpoint.

The training command calls `train_run` in each process of the run. It joins the modules of `around`, in the order of a
run's life, with the trainer that `core` builds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from reward_ablation.combination.load import load_method
from reward_ablation.combination.of_run import CombinationOfRun
from reward_ablation.data.prepared import further_columns_of, verify_problems
from reward_ablation.models.device import gpu_kind
from reward_ablation.models.generation_config import ignored_settings
from reward_ablation.models.prompt import check_prompt, tell_prompt_end
from reward_ablation.models.reward_model_host import load_reward_models
from reward_ablation.models.verify import verify_model
from reward_ablation.rewards.load import load_component
from reward_ablation.rewards.request_records import asking
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.core_digest import command_modules
from reward_ablation.study.heartbeat import beat
from reward_ablation.study.live_rollouts import drop_rollouts_after
from reward_ablation.study.run_folder import REQUESTS, answers_of_judges
from reward_ablation.study.specs_of_config import check_unchanged
from reward_ablation.system.errors import PassingError, StudyError, storage_errors
from reward_ablation.system.files import sha256, write_json
from reward_ablation.training.around.adapters import check_adapters
from reward_ablation.training.around.attempts import Attempt
from reward_ablation.training.around.checkpoints import KEPT_CHECKPOINTS, claim, read_json, resume_point, step_of
from reward_ablation.training.around.checks import check_problems, check_processes, check_trainer
from reward_ablation.training.around.divergence import StopAtDivergence, recorded_divergence
from reward_ablation.training.around.finish import clear_outputs, finish_run, finished, trained
from reward_ablation.training.around.interruption import Interruption, Stopped
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.launch.key import client_with
from reward_ablation.training.around.launch.vllm_server import longest_text
from reward_ablation.training.around.live_parts import LivePartWriter, texts_of_problems
from reward_ablation.training.around.progress import ProgressCallback
from reward_ablation.training.around.saving_trainer import SavingTrainer
from reward_ablation.training.around.tracking import InTrackers, prepare_wandb, tracker_settings
from reward_ablation.training.core import build as core
from reward_ablation.training.core.model import find_dropout
from reward_ablation.training.core.settings import halved

#: File in the work folder that says how many times the micro batch is halved. Written when a GPU runs out of memory.
MICRO_BATCH = "micro_batch.json"


@dataclass(frozen=True)
class Start:
    """What this attempt has to do. The main process decides it and sends it to the others."""

    finished: bool = False  # nothing is left to do
    trained: bool = False  # all steps are trained, and the outputs are left to be made
    checkpoint: Path | None = None  # where to train on from; None: from the beginning


def train_run(job: TrainingJob, callbacks: Sequence[TrainerCallback] = ()) -> None:
    """Train one run, or resume it where an attempt of the same spec and code was interrupted.

    Raises Stopped after a signal, before a Slurm job ends, and if a GPU ran out of memory; PassingError without a GPU.
    """
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(job.run_dir / "tensorboard"))
    if job.spec.gpus and gpu_kind() is None:
        raise PassingError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to train on the CPU")
    process = PartialState(cpu=job.spec.gpus == 0)
    check_processes(process.num_processes, job.spec.process_count)
    with storage_errors(job.run_dir):
        start = prepare(job) if process.is_main_process else Start()
        start = broadcast_object_list([start])[0]
        if start.finished:
            return
        if not start.trained:
            train(job, start.checkpoint, callbacks)
        if process.is_main_process:
            beat(job.work, "writing the results")
            finish_run(job.run_dir)
    process.wait_for_everyone()


def prepare(job: TrainingJob) -> Start:
    """Find out what earlier attempts have left, and prepare the run's folder for this attempt."""
    verify_problems(job.problems)
    inputs = {"model": sha256(job.model / "model.json"), "problems": sha256(job.problems)}
    owner = {"spec": job.spec.content(), "code": job.code, "inputs": inputs}
    if finished(job.run_dir, owner, job.any_code):
        print(f"train: {job.run_dir} is trained already; to train it again, delete the folder", flush=True)
        return Start(finished=True)
    for folder in (job.model, *job.reward_models.values()):
        verify_model(folder)
    claim(job.work, owner, command_modules(job.spec.functions))
    clear_outputs(job.run_dir)
    if trained(job.work):
        return Start(trained=True)
    checkpoint = resume_point(job.work)
    drop_rollouts_after(job.work, step_of(checkpoint))
    return Start(checkpoint=checkpoint)


def train(job: TrainingJob, checkpoint: Path | None, callbacks: Sequence[TrainerCallback]) -> None:
    """Train to the last step and save the final model; see `train_run`."""
    spec, work = job.spec, job.work
    interruption = Interruption()
    with interruption.watching():
        attempt = Attempt(work, step_of(checkpoint), job.started, spec)
        times = halvings(work)
        if PartialState().is_main_process:
            beat(work, "loading the model")
            if line := ignored_settings(job.model):
                print(f"train: {line}", flush=True)
            prepare_wandb(job.tracking, job.run_dir)
        trainer = build_trainer(job)
        for callback in (StopAtDivergence(), KeepModels(trainer, spec.keep_models), attempt, interruption, *callbacks):
            trainer.add_callback(callback)
        if checkpoint:
            trainer.load_state(checkpoint)  # what TRL's own resuming, below, does not know
        try:
            with asking(answers_of_judges(job.run_dir), work / REQUESTS), recorded_divergence(trainer, job.run_dir):
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            attempt.write(ended="out of memory", to_step=trainer.state.global_step)
            micro_batch = halve(work, spec.training, times, why_halving_matters(trainer))
            raise Stopped(
                f"a GPU ran out of memory; the next attempt takes micro batches of {micro_batch}",
                trainer.state.global_step,
                trainer.state.max_steps,
            ) from error
        stopped = trainer.state.global_step < trainer.state.max_steps
        if stopped and interruption.reason is None:
            raise StudyError("training: TRL ended before the last step; see the log above")
        if not stopped:
            if trainer.accelerator.is_main_process:
                beat(work, "saving the model", step=trainer.state.global_step)
            trainer.save_final()
            tell_unreached(trainer)
        attempt.write(ended=interruption.reason if stopped else "done", to_step=trainer.state.global_step)
        if stopped:
            trainer.accelerator.wait_for_everyone()  # when one process ends, the launcher ends the others
            raise Stopped(str(interruption.reason), trainer.state.global_step, trainer.state.max_steps)


def tell_unreached(trainer: SavingTrainer) -> None:
    """Warn of steps in gradients.whole that the run did not reach: epochs decide its length, not known before."""
    last = trainer.state.max_steps
    later = ", ".join(str(step) for step in trainer.whole_at if step > last)
    if later and trainer.accelerator.is_main_process:
        print(f"warning: gradients.whole: {later}: not written, because the run ended at step {last}", flush=True)


def halvings(work: Path) -> int:
    """How many times earlier attempts of a run have halved its micro batch."""
    record = read_json(work / MICRO_BATCH)
    return record["halvings"] if record else 0


def why_halving_matters(trainer: SavingTrainer) -> str | None:
    """Why half a micro batch would change the training, to go before "over micro batches"; None if it would not."""
    if trainer.loss_type == "bnpo" or trainer.top_entropy_quantile < 1:
        return "loss_type bnpo and top_entropy_quantile are taken"
    if trainer.entropy_coef or trainer.use_adaptive_entropy:
        return "the mean of entropy_coef and use_adaptive_entropy is taken"
    if trainer.aux_loss_enabled:
        return "the loss of router_aux_loss_coef is taken"
    if found := find_dropout(trainer.accelerator.unwrap_model(trainer.model)):
        return f"{found[0]} has a dropout of {found[1]}, which is drawn"
    return None


def halve(work: Path, settings: dict[str, Any], times: int, why_not: str | None = None) -> int:
    """Let the next attempt halve the micro batch once more than the `times` of this one; return its micro batch.

    `times` is not read from the file, which another process that ran out of memory, too, may have written already.
    `why_not` is what `why_halving_matters` returns.
    """
    if why_not:
        raise StudyError(
            "training: the GPU's memory does not hold the micro batch, and half of it would change the training, "
            f"because {why_not} over micro batches; lower per_device_train_batch_size and raise "
            "gradient_accumulation_steps yourself"
        )
    micro_batch = halved(settings, times)["per_device_train_batch_size"]
    if micro_batch % 2:
        raise StudyError(
            f"training: the GPU's memory does not hold a micro batch of {micro_batch}, which cannot be halved; lower "
            "max_completion_length, set gradient_checkpointing, train with lora, or give the run more GPUs"
        )
    write_json({"halvings": times + 1}, work / MICRO_BATCH)
    return micro_batch // 2


class KeepModels(TrainerCallback):
    """Keeps the model after every n-th step but the last, whose model is saved anyway; `every` is n, or 0 for no step.

    transformers saves the checkpoint of a step after this callback, so that the checkpoint includes the kept model.
    """

    def __init__(self, trainer: SavingTrainer, every: int):
        self.trainer = trainer
        self.every = every

    def on_step_end(self, args, state, control, **kwargs):
        if self.every and state.global_step % self.every == 0 and state.global_step < state.max_steps:
            self.trainer.keep_model()


def combination_of(spec: RunSpec) -> CombinationOfRun | None:
    """The run's combination of its components; None where TRL combines them."""
    if spec.combine is None:
        return None
    taking_part = {name: spec.weights[name] for name in spec.components if name in spec.taking_part}
    method = load_method(spec.combine.method, Path.cwd())
    check_unchanged(spec.combine, {}, Path.cwd())
    return CombinationOfRun(method, spec.combine, taking_part)


def build_trainer(job: TrainingJob) -> SavingTrainer:
    """The trainer of one run, ready to train."""
    spec, engine = job.spec, job.engine
    components = {}
    further = further_columns_of(job.problems)
    for name, component in spec.components.items():
        values = {**component.parameters, **job.parameters.get(name, {})}
        components[name] = load_component(component.function, values, Path.cwd(), name, further=further)
        check_unchanged(component, values, Path.cwd())
    load_reward_models(spec.components, job.parameters, job.reward_models, str(PartialState().device))
    prompting = (job.model, "the model", spec.prompt, spec.training.get("chat_template_kwargs") or {})
    check_prompt(*prompting)
    # Before TRL's config, with which DeepSpeed would shard this model, too.
    check_adapters(job.model, spec.lora, "lora")
    if PartialState().is_main_process:
        tell_prompt_end(*prompting)
    surroundings: dict[str, Any] = {"save_total_limit": KEPT_CHECKPOINTS, **tracker_settings(job.tracking)}
    if spec.vllm:
        surroundings |= engine.settings(spec.vllm.mode)
        if not spec.has_server:  # a server got this option when it was started
            surroundings["vllm_max_model_length"] = longest_text(job)
    config = core.build_config(spec, job.work, surroundings, halvings(job.work))
    texts = texts_of_problems(job.problems, spec) if config.process_index == 0 else {}  # which alone writes live rows
    sink = LivePartWriter(job.work, config.process_index, texts)
    progress = ProgressCallback(list(components), job.work)
    with client_with(engine.server.key if engine.server else None):
        trainer = core.build_trainer(
            SavingTrainer, spec, components, job.model, job.problems, config, sink, [progress], combination_of(spec)
        )
    if job.tracking:  # before the trackers' own callbacks, which get the log as it has changed it
        trainer.callback_handler.callbacks.insert(0, InTrackers(job.tracking, dict(spec.weights), sink))
    check_trainer(trainer, spec.strategy)
    dataset: Any = trainer.train_dataset
    check_problems(config, len(dataset), job.problems)
    return trainer
