"""Runs to train in this process and in several. They generate the same completions and must have the same result.

torchrun --nproc-per-node 2 tests/training/given.py JOBS.json
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from transformers import TrainerCallback

SGD = {"optim": "sgd", "learning_rate": 0.3, "max_steps": 2}  # Adam makes much of gradients that are next to nothing
LENGTH = {"function": "character_length", "parameters": {"target": 30}}
#: Changes of the spec of each run. Where there is a KL term, a placement, or an older model's rollouts, gradients are
#: measured in backward passes of their own.
RUNS: dict[str, dict[str, Any]] = {
    "one_pass": {"training": {**SGD, "loss_type": "grpo"}, "gradients": {"whole": [1]}},
    "many_passes": {
        "components": {"correctness": {**LENGTH, "placement": "last_token"}},
        "training": {**SGD, "beta": 0.1, "num_iterations": 2, "epsilon": 0.05, "gradient_accumulation_steps": 2},
        "gradients": {"whole": [2]},
    },
    "combined": {"training": SGD, "combine": {"method": "drw", "parameters": {"mu": 1e-2}, "gram": "averaged"}},
    "combined_ahead": {
        "training": {**SGD, "gradient_accumulation_steps": 2},
        "combine": {"method": "upgrad", "parameters": {}, "gram": "same_step"},
    },
}
#: Completions of a batch, over all processes.
BATCH = 8


def specs(processes: int, spec_with: Callable[..., dict]) -> dict[str, dict]:
    """The runs' specs for a number of processes."""
    runs = copy.deepcopy(RUNS)
    for changes in runs.values():
        changes.setdefault("components", {}).setdefault("correctness", LENGTH)  # the model gives no right answer
        changes["training"]["per_device_train_batch_size"] = BATCH // processes
        changes["processes"] = processes
    return {name: spec_with(**changes) for name, changes in runs.items()}


def assert_same(one: Path, several: Path) -> None:
    """Two runs measured and trained the same, but for rounding."""
    keys = ["step", "layer", "definition", "component_a", "component_b"]
    first, second = (pd.read_parquet(run / "gradients.parquet").set_index(keys) for run in (one, several))
    assert list(first.index) == list(second.index)
    # the KL term is zero at the first step
    assert (first.norm_a > 0).mean() > 0.7
    assert ((first["dot"] - second["dot"]).abs() <= 2e-5 * first.norm_a * first.norm_b).all()
    parts = second[["self", "same_prompt", "cross_prompt", "across_blocks"]].sum(axis=1, skipna=False)
    assert parts.to_numpy() == pytest.approx(second.cosine.to_numpy(), abs=1e-5, nan_ok=True)
    assert second.across_blocks.abs().max() > 0.01
    names = sorted(path.name for path in one.glob("gradients_step_*.npz"))
    assert names == sorted(path.name for path in several.glob("gradients_step_*.npz"))
    for name in names:
        wanted, found = np.load(one / name), np.load(several / name)
        assert wanted.files == found.files
        for array in wanted.files:
            assert np.abs(wanted[array] - found[array]).max() < 2e-5 * np.abs(wanted[array]).max(), array
    assert _norms(several) == pytest.approx(_norms(one), rel=1e-5)
    weights, others = (load_file(run / "model/model.safetensors") for run in (one, several))
    assert all(np.abs(weights[name] - others[name]).max() < 1e-6 for name in weights)


def assert_same_rollouts(one: Path, several: Path) -> None:
    """Two runs generated the same completions, and scored them alike."""
    keys, compared = ["step", "problem_id", "rollout"], "completion|score_|tokens"
    tables = (pd.read_parquet(run / "rollouts.parquet").set_index(keys).sort_index() for run in (one, several))
    pd.testing.assert_frame_equal(*(table.filter(regex=compared) for table in tables))


def assert_shares_are_the_training_gradient(run: Path, step: int) -> None:
    """The shares add up to the gradient whose norm the optimiser logs."""
    wanted = "step == @step and layer == 'all' and definition == 'share'"
    rows = pd.read_parquet(run / "gradients.parquet").query(wanted)
    square = (rows["dot"] * np.where(rows.component_a == rows.component_b, 1, 2)).sum()
    assert square**0.5 == pytest.approx(_norms(run)[step - 1], rel=1e-5)


def _norms(run: Path) -> list[float]:
    return pd.read_parquet(run / "metrics.parquet").grad_norm.tolist()


class KeepLiveRollouts(TrainerCallback):
    """Copies `rollouts.jsonl` after each step, to a file beside the run's folder."""

    def __init__(self, run: Path):
        self.run = run

    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            shutil.copy(self.run / ".work/rollouts.jsonl", self.run.with_suffix(".jsonl"))


def main() -> None:
    from reward_ablation.spec.run import RunSpec
    from reward_ablation.training.around.job import TrainingJob
    from reward_ablation.training.around.run import train_run

    if os.environ.get("ACCELERATE_USE_DEEPSPEED"):
        import deepspeed

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled first
    jobs = json.loads(Path(sys.argv[1]).read_text())
    for run, spec in jobs["runs"].items():
        inputs = (Path(jobs["model"]), Path(jobs["problems"]))
        train_run(TrainingJob(RunSpec.parse(spec), "code", *inputs, Path(run)), [KeepLiveRollouts(Path(run))])
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's processes may abort while they are taken down


if __name__ == "__main__":
    main()
