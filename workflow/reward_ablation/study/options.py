"""Options of commands that are no part of a spec: what decides no result, each after a space, quoted for the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import run_title, tracking_in
from reward_ablation.study.canonical import dump, normalised
from reward_ablation.study.component_spec import divide
from reward_ablation.study.reward_models import UsedModel
from reward_ablation.study.run import Run


def launch_options(launch: Launch) -> str:
    """A share of a GPU, how much memory a colocated vLLM takes, and whether vLLM sleeps while the model is trained."""
    share = f" --gpu-share {launch.share:.6g}" if launch.share < 1 else ""
    if launch.vllm is None:
        return share
    return (
        f"{share} --vllm-memory-percent {launch.vllm_memory_percent} --vllm-sleep {int(launch.vllm.enable_sleep_mode)}"
    )


def other_parameters(functions: Mapping[str, tuple[str, dict[str, Any]]], root: Path) -> dict[str, dict[str, Any]]:
    """Parameters that are no part of any spec, by the name of a component or metric; only names that have any.

    `functions` are functions with all of their parameters, by name. Relative paths start from the root.
    """
    divided = {name: divide(function, parameters, root).others for name, (function, parameters) in functions.items()}
    return {name: normalised(others) for name, others in divided.items() if others}


def parameter_options(others: Mapping[str, Mapping[str, Any]]) -> str:
    """Parameters that are no part of a spec, by component or metric; empty without any."""
    return f" --parameters {shlex.quote(dump(others))}" if others else ""


def reward_model_options(models: Iterable[UsedModel], results: str) -> str:
    """Folders of fetched reward models below the results folder; empty without any."""
    folders = {model.reference: f"{results}/{model.file.rpartition('/')[0]}" for model in models}
    return f" --reward-models {shlex.quote(dump(folders))}" if folders else ""


def tracking_options(config: StudyConfig, training: dict[str, Any], run: Run) -> str:
    """What experiment trackers are told of a run; empty without any.

    `training` are the run's settings as the config has them, with those of the trackers.
    """
    chosen = tracking_in(training)
    if not chosen:
        return ""
    title = run_title(config.model, training, run.arm, run.seed)
    told = {"project": config.name, "run_name": title, **chosen, "group": run.arm}
    return f" --tracking {shlex.quote(dump(told))}"
