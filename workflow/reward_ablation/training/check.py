"""Let TRL check training settings before any job starts: one JSON object a line on stdin.

python -m reward_ablation.training.check --gpus N
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reward_ablation.study.errors import StudyError, one_line_errors
from reward_ablation.training.settings import grpo_config

TRACKERS = ("tensorboard", "wandb", "trackio")


def as_one_process(settings: dict[str, Any], gpus: int) -> dict[str, Any]:
    """Settings that this process, perhaps without a GPU, can judge as the run's processes would.

    The batch that is generated spans all processes; number formats of a GPU are left out.
    """
    settings = {name: value for name, value in settings.items() if name not in ("tf32", "bf16", "fp16")}
    if gpus > 1 and settings.get("generation_batch_size") is None:
        settings["per_device_train_batch_size"] = gpus * settings.get("per_device_train_batch_size", 8)
    return {**settings, "bf16": False}


def check_trackers(report_to: Any) -> None:
    """Refuse an experiment tracker that is not installed."""
    for name in [report_to] if isinstance(report_to, str) else report_to or []:
        if name in TRACKERS and find_spec(name) is None:
            raise StudyError(f"training: report_to: {name} is not installed; pip install {name}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.training.check")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs of one run; 0: CPU")
    arguments = parser.parse_args()
    for line in sys.stdin:
        settings = json.loads(line)
        check_trackers(settings.get("report_to"))
        if arguments.gpus:
            settings = as_one_process(settings, arguments.gpus)
        grpo_config(settings, Path("unused"), seed=0, on_cpu=arguments.gpus == 0)


if __name__ == "__main__":
    with one_line_errors():
        main()
