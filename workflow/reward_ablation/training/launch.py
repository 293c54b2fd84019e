"""Processes of one run: this one on a CPU or one GPU, `accelerate launch` on several."""

from __future__ import annotations

import os
import sys


def lay_out_processes(gpus: int) -> None:
    """Replace this process by `accelerate launch` with one process a GPU; return where there is nothing to do.

    `exec`, so that a signal to the job still reaches the trainer's parent. A run on one GPU of several
    that nobody has chosen from takes the first: TRL would spread the model over all of them.
    """
    if gpus == 1:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    if gpus <= 1 or int(os.environ.get("WORLD_SIZE", "1")) == gpus:
        return
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(gpus)]
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    command += ["--module", "reward_ablation.training", *sys.argv[1:]]
    os.execv(sys.executable, command)
