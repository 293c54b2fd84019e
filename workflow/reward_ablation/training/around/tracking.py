"""Settings of experiment trackers: TRL's settings, and the environment variables that W&B reads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.files import atomic_path

#: File with the id of a run's W&B run. It exists while the run is being trained: a new training is a new W&B run.
WANDB_ID = "wandb_id"


def tracker_settings(tracking: Mapping[str, Any]) -> dict[str, Any]:
    """TRL's settings of the trackers, from the command's option `--tracking`; empty where there is no tracker.

    If the user has set WANDB_NAME, it becomes the run's name. Otherwise TRL's own name would take precedence.
    """
    settings = {name: value for name, value in tracking.items() if name != "group"}
    if settings and (name := os.environ.get("WANDB_NAME")):
        settings["run_name"] = name
    return settings


def prepare_wandb(
    tracking: Mapping[str, Any], run_dir: Path, environment: MutableMapping[str, str] = os.environ
) -> None:
    """Set W&B's environment variables, such as the id of its run and the folder of its files.

    Variables that the user has set stay. Only the first process of a run logs. It calls this function once the work
    folder belongs to the run.
    """
    if not tracking:
        return
    environment.setdefault("WANDB_PROJECT", tracking["project"])
    environment.setdefault("WANDB_RUN_GROUP", tracking["group"])
    environment.setdefault("WANDB_DIR", str(run_dir.resolve()))
    environment.setdefault("WANDB_RUN_ID", _wandb_id(run_dir / WORK / WANDB_ID))
    environment.setdefault("WANDB_RESUME", "allow")  # an interrupted run continues its W&B run


def _wandb_id(path: Path) -> str:
    """The id that an earlier attempt wrote, or a new one."""
    if not path.exists():
        with atomic_path(path) as temporary:
            temporary.write_text(secrets.token_hex(8))
    return path.read_text()
