"""Settings of experiment trackers, and the name of a run in them. They decide no result, so no spec has them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from reward_ablation.config.sections.model import DemoModel, HubModel, Model

#: TRL's settings of trackers.
TRACKING = {"report_to", "run_name", "project", "hub_private_repo"}
TRACKING |= {"trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"}

#: TRL's own defaults of settings that a run's name shows.
GENERATIONS, EPOCHS = 8, 3.0


def without_tracking(training: dict[str, Any]) -> dict[str, Any]:
    """Training settings without those of trackers."""
    return {name: value for name, value in training.items() if name not in TRACKING}


def tracking_in(training: dict[str, Any]) -> dict[str, Any]:
    """The settings of trackers; empty if no tracker is switched on."""
    chosen = {name: value for name, value in training.items() if name in TRACKING}
    return {} if chosen.get("report_to") in (None, "none", [], ["none"]) else chosen


def run_title(model: Model, training: dict[str, Any], arm: str, seed: int) -> str:
    """What trackers call a run: `Qwen2.5-0.5B-Instruct-K8-128steps-mixed-seed0`. K is the completions of a prompt."""
    steps = training.get("max_steps", -1)
    length = f"{steps}steps" if steps > 0 else f"{training.get('num_train_epochs', EPOCHS):g}epochs"
    return f"{_model_title(model)}-K{training.get('num_generations') or GENERATIONS}-{length}-{arm}-seed{seed}"


def _model_title(model: Model) -> str:
    if isinstance(model, DemoModel):
        return "demo"
    return PurePosixPath(model.id if isinstance(model, HubModel) else model.path).name
