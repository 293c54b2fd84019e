"""Train one run: one arm with one seed.

python -m reward_ablation.training --spec JSON --code DIGEST --model FOLDER --problems FILE --run-dir FOLDER
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from reward_ablation.study.errors import one_line_errors
from reward_ablation.training.launch import lay_out_processes

STARTED = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.training", description=__doc__.splitlines()[0])
    parser.add_argument("--spec", required=True, help="canonical JSON of all that decides the run, its seed included")
    parser.add_argument("--code", required=True, help="digest of the training code, for the record")
    parser.add_argument("--model", required=True, type=Path, help="folder of the base model")
    parser.add_argument("--problems", required=True, type=Path, help="prepared training set, Parquet")
    parser.add_argument("--run-dir", required=True, type=Path, help="folder for the run's outputs")
    arguments = parser.parse_args()
    lay_out_processes(json.loads(arguments.spec)["gpus"])

    from reward_ablation.training.run import train_run  # imports torch: not before the processes are laid out

    train_run(arguments.spec, arguments.code, arguments.model, arguments.problems, arguments.run_dir, started=STARTED)


if __name__ == "__main__":
    with one_line_errors():
        main()
