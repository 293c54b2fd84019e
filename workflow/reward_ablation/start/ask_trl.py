"""Let TRL check training settings before any job starts.

Each line on stdin is a JSON object with the parts of a run's spec that TRL checks: the settings `training` and the
`layout`. For a supervised start, the object has the settings `sft` and the number `gpus`.

python -m reward_ablation.start.ask_trl
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reward_ablation.sft.settings import sft_config
from reward_ablation.spec.run import Layout
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.training.around.launch.processes import check_installed
from reward_ablation.training.core.settings import grpo_config


def as_one_process(settings: dict[str, Any], gpus: int, processes: int) -> dict[str, Any]:
    """Change settings so that TRL judges them in this one process, perhaps without a GPU, as in the run's processes.

    TRL multiplies the micro-batch by the number of processes wherever it uses it. Number formats that need a GPU are
    left out.
    """
    if processes > 1:
        per_process = settings.get("per_device_train_batch_size", 8)
        settings = {**settings, "per_device_train_batch_size": processes * per_process}
    if gpus == 0:
        return settings
    return {name: value for name, value in settings.items() if name not in ("tf32", "fp16")} | {"bf16": False}


def _check_trackers(report_to: Any) -> None:
    for name in [report_to] if isinstance(report_to, str) else report_to or []:
        if name in ("tensorboard", "wandb", "trackio") and find_spec(name) is None:
            raise StudyError(f"training: report_to: {name} is not installed; pip install {name}")


@one_line_errors()
def main() -> None:
    argparse.ArgumentParser(prog="python -m reward_ablation.start.ask_trl").parse_args()
    for line in sys.stdin:
        run = json.loads(line)
        if "sft" in run:
            sft_config(as_one_process(run["sft"], run["gpus"], 1), Path("unused"), seed=0, on_cpu=run["gpus"] == 0)
            continue
        _check_trackers(run["training"].get("report_to"))
        layout = Layout.read(run["layout"], "layout")
        check_installed(layout)
        settings = as_one_process(run["training"], layout.gpus, layout.process_count)
        grpo_config(settings, Path("unused"), seed=0, on_cpu=layout.gpus == 0, vllm=layout.vllm)


if __name__ == "__main__":
    main()
