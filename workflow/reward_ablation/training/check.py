"""Let TRL check training settings before any job starts: one JSON object a line on stdin.

python -m reward_ablation.training.check --gpus N
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reward_ablation.study.errors import one_line_errors
from reward_ablation.training.settings import grpo_config


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.training.check")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs of one run; 0: CPU")
    arguments = parser.parse_args()
    for line in sys.stdin:
        settings = json.loads(line)
        if arguments.gpus:
            settings = {**settings, "bf16": False}  # the machine that submits jobs may have no GPU
        grpo_config(settings, Path("unused"), seed=0, on_cpu=arguments.gpus == 0)


if __name__ == "__main__":
    with one_line_errors():
        main()
