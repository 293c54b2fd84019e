"""Stops a run whose numbers are not finite any more, and records this in its folder; starts then leave the run out.

`training.around.run` adds both. Logits that are not finite are found by `sampling.draws.WatchLogits`, and advantages by
the trainer. These raise `NotFinite` within a step, which is not counted yet.

Nothing here waits for the GPU more than once a step: the loss and the gradient norm come from TRL's log of the step,
and the largest weight is one number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from reward_ablation.study.run_folder import GOES_ON, OWNER, WORK, record_divergence
from reward_ablation.system.errors import NotFinite, StudyError


class StopAtDivergence(TrainerCallback):
    """Raises `NotFinite` after a step that left a weight, the loss or the gradient norm NaN or infinite."""

    def on_train_begin(self, args, state, control, **kwargs):
        args.logging_nan_inf_filter = False  # else transformers logs the loss of other steps in place of NaN

    def on_step_end(self, args, state, control, model=None, **kwargs):
        # Under ZeRO-3 most weights are elsewhere, and empty here. Then the loss, the gradient norm or logits tell.
        weights = [part.detach() for part in model.parameters() if part.requires_grad and part.numel()]
        if weights and not torch.nn.utils.get_total_norm(weights, math.inf).isfinite():
            raise NotFinite("the weights are not finite", state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if args.fp16:  # its gradients overflow now and then, and such a step is skipped
            return
        for name, words in (("loss", "loss"), ("grad_norm", "gradient norm")):
            value = (logs or {}).get(name)
            if value is not None and not math.isfinite(value):
                raise NotFinite(f"the {words} is {value}", state.global_step)


@contextmanager
def recorded_divergence(trainer: Trainer, run_dir: Path) -> Iterator[None]:
    """Record a divergence in the run's folder, and report it as an error of the user."""
    try:
        yield
    except NotFinite as error:
        step = error.step or trainer.state.global_step + 1
        owner = json.loads((run_dir / WORK / OWNER).read_text())
        spec = dict(owner["spec"])
        record_divergence(run_dir, {**owner, "seed": spec.pop("seed"), "spec": spec}, step, str(error))
        raise StudyError(
            f"training: diverged at step {step}: {error}; {_first_weight(trainer.model)}; "
            f"{_last_norm(trainer.state.log_history)}; lower learning_rate, or raise warmup_steps; then {GOES_ON}"
        ) from None


def _first_weight(model: Any) -> str:
    """The first weight that is not finite, in words."""
    for name, part in model.named_parameters():
        if not part.detach().isfinite().all():
            return f"first tensor that is not finite: {name}"
    return "all weights are finite"


def _last_norm(history: list[dict[str, float]]) -> str:
    """The last finite gradient norm on record, in words."""
    for row in reversed(history):
        if math.isfinite(norm := row.get("grad_norm", math.nan)):
            return f"last finite gradient norm: {norm:.3g}, at step {row['step']}"
    return "no gradient norm before"
