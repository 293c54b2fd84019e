"""What an experiment tracker is told of a run, by TRL's settings and by the environment that W&B reads."""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.files import atomic_path

#: Holds the id of a run's W&B run for as long as it is being trained: another training is another W&B run.
WANDB_ID = "wandb_id"


def tracker_settings(tracking: dict[str, Any]) -> dict[str, Any]:
    """TRL's settings of the trackers, from the command's option `--tracking`; none where there is no tracker.

    A user's WANDB_NAME becomes the run's name: TRL would prefer its own.
    """
    settings = {name: value for name, value in tracking.items() if name != "group"}
    if settings and (name := os.environ.get("WANDB_NAME")):
        settings["run_name"] = name
    return settings


def prepare_wandb(tracking: dict[str, Any], run_dir: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the environment variables that the user has not: which W&B run this is, and where its files go.

    Called in the first process of a run, which alone logs, once the work folder is the run's own.
    """
    if not tracking:
        return
    environment.setdefault("WANDB_PROJECT", tracking["project"])
    environment.setdefault("WANDB_RUN_GROUP", tracking["group"])
    environment.setdefault("WANDB_DIR", str(run_dir.resolve()))
    environment.setdefault("WANDB_RUN_ID", _wandb_id(run_dir / WORK / WANDB_ID))
    environment.setdefault("WANDB_RESUME", "allow")  # an interrupted run goes on where it was


def _wandb_id(path: Path) -> str:
    """The id that an earlier attempt has left, or a new one."""
    if not path.exists():
        with atomic_path(path) as temporary:
            temporary.write_text(secrets.token_hex(8))
    return path.read_text()
