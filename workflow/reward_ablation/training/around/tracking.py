"""Experiment trackers: TRL's settings, the variables that W&B reads, and what TRL does not tell trackers.

`run` calls it before it trains; in a study without trackers nothing is set.
"""

from __future__ import annotations

import os
import secrets
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.files import atomic_path
from reward_ablation.training.around.live_parts import LivePartWriter

#: File with the id of a run's W&B run. It exists while the run is being trained: a new training is a new W&B run.
WANDB_ID = "wandb_id"


def tracker_settings(tracking: Mapping[str, Any]) -> dict[str, Any]:
    """TRL's settings of the trackers, from the command's option `--tracking`; empty where there is no tracker.

    The user's WANDB_NAME comes before TRL's own name. All trackers get one name, and runs of one name are a single run
    to Trackio: in a study with Trackio the variable has no effect.
    """
    settings = {name: value for name, value in tracking.items() if name != "group"}
    trackers = settings.get("report_to") or ()
    if "wandb" in trackers and "trackio" not in trackers and (name := os.environ.get("WANDB_NAME")):
        settings["run_name"] = name
    return settings


def prepare_wandb(
    tracking: Mapping[str, Any], run_dir: Path, environment: MutableMapping[str, str] = os.environ
) -> None:
    """Set W&B's environment variables in a run's first process, which alone logs; those that the user has set stay."""
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


class InTrackers(TrainerCallback):
    """Tells W&B and Trackio the arm and the weights, and gives all trackers the spread of scores of weight 0.

    TRL's settings have the weights without names, and TRL logs no standard deviation of scores that it does not train
    on. Must come before the trackers' own callbacks, which get the changed log. The run's own metrics do not change.
    """

    def __init__(self, tracking: Mapping[str, Any], weights: Mapping[str, float], sink: LivePartWriter):
        self.config = {"arm": tracking["group"], **{f"weights/{name}": weight for name, weight in weights.items()}}
        self.ablated = [name for name, weight in weights.items() if not weight]
        self.sink = sink
        self._begun = False
        self._rows: list[dict[str, Any]] = []  # rows of the sink that are in `_deviations` already
        self._deviations: defaultdict[str, list[float]] = defaultdict(list)  # since the last log, by metric

    def on_step_begin(self, args, state, control, **kwargs):
        if self._begun or not state.is_world_process_zero:
            return
        self._begun = True  # all trackers have begun, and none has logged
        if "wandb" in args.report_to and (run := import_module("wandb").run) is not None:
            run.config.update(self.config, allow_val_change=True)
        if "trackio" in args.report_to:
            # `_Group` is what trackio.init(group=...) sets. transformers calls trackio.init without a group.
            import_module("trackio").config.update({**self.config, "_Group": self.config["arm"]})

    def on_step_end(self, args, state, control, **kwargs):
        if self._rows is self.sink.last_rows:  # the step trained on rollouts of an earlier step
            return
        self._rows = self.sink.last_rows
        for name in self.ablated:
            scores = [score for row in self._rows if (score := row[f"score_{name}"]) is not None]
            if len(scores) > 1:
                self._deviations[f"rewards/{name}/std"].append(float(np.std(scores, ddof=1)))

    def on_log(self, args, state, control, logs=None, **kwargs):
        for metric, deviations in self._deviations.items():
            logs.setdefault(metric, sum(deviations) / len(deviations))  # the mean since the last log, as in TRL
        self._deviations.clear()
