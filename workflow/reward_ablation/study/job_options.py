"""What jobs are given that decides no result and is in no spec: threads, resources, and options of commands.

`study.resolve` and `study.scoring` write the options into the study. The rules (`start.rule_params`) and the check of
Slurm jobs (`start.full_check`) take the threads and resources. An option comes after a space, quoted for the shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.model import DemoModel, HubModel, Model
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import tracking_in
from reward_ablation.spec.canonical import dump, normalised
from reward_ablation.study.reward_models import UsedModel
from reward_ablation.study.specs_of_config import divide

#: TRL's own defaults of settings that a run's title shows.
GENERATIONS, EPOCHS = 8, 3.0


def threads_of(launch: Launch) -> int:
    """CPU threads of a run on each of its nodes."""
    return launch.process_count // launch.nodes * launch.threads


def resources_of(launch: Launch) -> dict[str, int | str]:
    """Snakemake's resources of the training job of a run."""
    return {"gpu": launch.all_gpus, "nodes": launch.nodes, **launch.resources}


def launch_options(launch: Launch) -> str:
    """Options for vLLM's share of the memory, and whether vLLM sleeps while the model is trained."""
    if launch.vllm is None:
        return ""
    return f" --vllm-memory-percent {launch.vllm.memory_percent} --vllm-sleep {int(launch.vllm.enable_sleep_mode)}"


def other_parameters(functions: Mapping[str, tuple[str, dict[str, Any]]], root: Path) -> dict[str, dict[str, Any]]:
    """Parameters that are part of no spec, by component or metric, of functions with all their parameters."""
    divided = {name: divide(function, parameters, root).others for name, (function, parameters) in functions.items()}
    return {name: normalised(others) for name, others in divided.items() if others}


def parameter_options(others: Mapping[str, Mapping[str, Any]]) -> str:
    """Option with the `other_parameters` of components or metrics; empty if there are none."""
    return f" --parameters {shlex.quote(dump(others))}" if others else ""


def reward_model_options(models: Iterable[UsedModel], results: str) -> str:
    """Option with the folders of fetched reward models; empty if there are none. `results` is the results folder."""
    folders = {model.reference: f"{results}/{model.file.rpartition('/')[0]}" for model in models}
    return f" --reward-models {shlex.quote(dump(folders))}" if folders else ""


def tracking_options(config: StudyConfig, training: dict[str, Any], arm: str, seed: int) -> str:
    """Option with the settings of trackers in a run's training settings; empty without trackers."""
    chosen = tracking_in(training)
    if not chosen:
        return ""
    own = chosen.get("run_name")  # the config's, the same for all arms and seeds; Trackio would make them one run
    title = f"{own}-{arm}-seed{seed}" if own else run_title(config.model, training, arm, seed)
    settings = {"project": config.name, **chosen, "run_name": title, "group": arm}
    return f" --tracking {shlex.quote(dump(settings))}"


def run_title(model: Model, training: dict[str, Any], arm: str, seed: int) -> str:
    """What trackers call a run: `Qwen2.5-0.5B-Instruct-K8-128steps-mixed-seed0`. K is the completions of a prompt."""
    name = "demo" if isinstance(model, DemoModel) else model.id if isinstance(model, HubModel) else model.path
    steps = training.get("max_steps", -1)
    length = f"{steps}steps" if steps > 0 else f"{training.get('num_train_epochs', EPOCHS):g}epochs"
    generations = training.get("num_generations") or GENERATIONS
    return f"{PurePosixPath(name).name}-K{generations}-{length}-{arm}-seed{seed}"
