"""What jobs are given that decides no result and is in no spec: threads, resources, and options of commands.

Each option comes after a space and is quoted for the shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import run_title, tracking_in
from reward_ablation.spec.canonical import dump, normalised
from reward_ablation.study.reward_models import UsedModel
from reward_ablation.study.run import Run
from reward_ablation.study.specs_of_config import divide


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
    """Parameters that are not part of any spec, by component or metric. Names without such parameters are left out.

    `functions` are functions with all their parameters, by component or metric. Relative paths start from the root.
    """
    divided = {name: divide(function, parameters, root).others for name, (function, parameters) in functions.items()}
    return {name: normalised(others) for name, others in divided.items() if others}


def parameter_options(others: Mapping[str, Mapping[str, Any]]) -> str:
    """Option with the `other_parameters` of components or metrics; empty if there are none."""
    return f" --parameters {shlex.quote(dump(others))}" if others else ""


def reward_model_options(models: Iterable[UsedModel], results: str) -> str:
    """Option with the folders of fetched reward models; empty if there are none. `results` is the results folder."""
    folders = {model.reference: f"{results}/{model.file.rpartition('/')[0]}" for model in models}
    return f" --reward-models {shlex.quote(dump(folders))}" if folders else ""


def tracking_options(config: StudyConfig, training: dict[str, Any], run: Run) -> str:
    """Option with the settings of experiment trackers for a run; empty without trackers.

    `training` are the run's training settings as in the config, including the settings of trackers.
    """
    chosen = tracking_in(training)
    if not chosen:
        return ""
    title = run_title(config.model, training, run.arm, run.seed)
    settings = {"project": config.name, "run_name": title, **chosen, "group": run.arm}
    return f" --tracking {shlex.quote(dump(settings))}"
