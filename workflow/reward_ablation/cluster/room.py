"""Whether the file system has room for what a study will write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.models.verify import FETCHED
from reward_ablation.study.run_spec import ArmSpec

#: Of a parameter: its weight, and Adam's two moments.
_COPIES_IN_A_CHECKPOINT = 3
#: What training sets where the study does not.
_CHECKPOINTS_KEPT = 2
#: A trained adapter has at most so large a share of the model's parameters, at the ranks that are in use.
_ADAPTER = 0.05


def bytes_to_come(parameters: int, specs: Sequence[ArmSpec], at_once: int) -> int:
    """Bytes that runs will write at most: all their models, and the checkpoints of the largest `at_once` runs.

    Parameters
    ----------
    parameters : int
        Number of parameters of the base model.
    specs : sequence of ArmSpec
        One for each run.
    """
    models, work = [], []
    for spec in specs:
        settings = spec.training
        width = 2 if "16" in str((settings.get("model_init_kwargs") or {}).get("dtype", "float32")) else 4
        model = round(parameters * width * (_ADAPTER if spec.lora else 1))
        # One more than are kept is there while the oldest is about to go.
        checkpoints = (settings.get("save_total_limit") or _CHECKPOINTS_KEPT) + 1
        models.append(model * (1 + models_kept(spec)))
        work.append(model * _COPIES_IN_A_CHECKPOINT * checkpoints)
    return sum(models) + sum(sorted(work, reverse=True)[:at_once])


def models_kept(spec: ArmSpec) -> int:
    """Models that a run keeps beside the final one; 0 where its number of steps is not known before it starts."""
    steps, every = spec.training.get("max_steps", -1), spec.keep_models
    return (steps - 1) // every if every and steps > 0 else 0


def no_room(model: Path, results: Path, specs: Sequence[ArmSpec], at_once: int) -> str | None:
    """A message where runs need more room than there is; None where there is enough, or where nothing is known.

    Parameters
    ----------
    model, results : Path
        Folder of the base model, and the folder that the runs write to.
    """
    try:
        parameters = json.loads((model / FETCHED).read_text())["parameters"]
        free = shutil.disk_usage(results).free
        needed = bytes_to_come(parameters, specs, at_once)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if needed <= free:
        return None
    return (
        f"{results}: {_gb(free)} free, and {len(specs)} runs, {min(at_once, len(specs))} at once, write up to "
        f"{_gb(needed)} of models and checkpoints; make room, lower save_total_limit, or train fewer at once (--jobs)"
        f"{', or raise keep_models' if any(map(models_kept, specs)) else ''}"
    )


def _gb(number: int) -> str:
    return f"{number / 1e9:.3g} GB"
