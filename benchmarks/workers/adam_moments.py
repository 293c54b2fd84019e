"""A worker of `what_if.py`: trains one run, and keeps inner products under Adam's second moments.

python adam_moments.py --spec FILE --model FOLDER --problems FILE --run-dir FOLDER

The run writes the files of any training, and `preconditioned.npz`. For each step after the first, this file has the
Gram matrix of the completions' gradients under the inner product sum_p a_p b_p / (sqrt(v_p) + eps). Here v are Adam's
bias-corrected second moments before the step. Rows are in the order of `sample_gram_rows.parquet`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import TrainerCallback

from reward_ablation.spec.run import RunSpec
from reward_ablation.study.core_digest import training_digest
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.run import train_run
from reward_ablation.training.core.gradients.recorder import Measurement


class PreconditionedGrams(TrainerCallback):
    """Sums Gram matrices of the rows that a measurement gets, under the inner product of this module."""

    def __init__(self) -> None:
        self.optimizer: Any = None
        self.parameters: dict[str, Tensor] = {}
        self.scales: dict[str, Tensor] = {}
        self.gram: Tensor | None = None
        self.grams: dict[str, np.ndarray] = {}

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        """Keep the model's parameters and the optimizer, which has their moments."""
        self.parameters, self.optimizer = dict(model.named_parameters()), optimizer

    def on_step_begin(self, args, state, control, **kwargs):
        """Compute the scales from the second moments. Before the first step there are no moments."""
        self.gram, self.scales = None, {}
        _, beta = self.optimizer.param_groups[0]["betas"]
        for name, parameter in self.parameters.items():
            moments = self.optimizer.state.get(parameter)
            if moments:
                unbiased = moments["exp_avg_sq"] / (1 - beta ** float(moments["step"]))
                self.scales[name] = 1 / (unbiased.sqrt() + self.optimizer.param_groups[0]["eps"]).flatten()

    def take(self, parameter: str, rows: Tensor, place: int | Tensor) -> None:
        """Add rows of a part of a parameter. The arguments are those of `Measurement.add`."""
        if parameter not in self.scales:
            return
        scale, flat = self.scales[parameter], rows.flatten(1).float()
        part = (
            scale[place : place + flat.size(1)]
            if isinstance(place, int)
            else scale.view(-1, rows.size(2))[place].flatten()
        )
        product = (flat * part) @ flat.T
        self.gram = product if self.gram is None else self.gram + product

    def on_step_end(self, args, state, control, **kwargs):
        """Keep the Gram matrix of the step."""
        if self.gram is not None:
            self.grams[str(state.global_step)] = self.gram.numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spec", type=Path, required=True)
    for name in ("model", "problems", "run-dir"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--plain", action="store_true", help="keep no moments: the cost of training alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    watcher, add = PreconditionedGrams(), Measurement.add

    def added(self: Measurement, parameter: str, size: int, rows: Tensor, place: int | Tensor) -> None:
        add(self, parameter, size, rows, place)
        watcher.take(parameter, rows, place)

    callbacks: tuple[TrainerCallback, ...] = ()
    if not arguments.plain:
        Measurement.add, callbacks = added, (watcher,)  # type: ignore[method-assign]
    spec = RunSpec.parse(arguments.spec.read_text())
    code = training_digest(spec.functions)
    start = time.process_time()
    train_run(TrainingJob(spec, code, arguments.model, arguments.problems, arguments.run_dir), callbacks)
    if watcher.grams:
        np.savez_compressed(arguments.run_dir / "preconditioned.npz", **watcher.grams)
    (arguments.run_dir / "cpu_seconds.txt").write_text(f"{time.process_time() - start:.1f}\n")


if __name__ == "__main__":
    main()
