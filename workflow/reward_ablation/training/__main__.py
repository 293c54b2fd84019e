"""Train one run: one arm with one seed.

python -m reward_ablation.training --spec JSON --code DIGEST --model FOLDER --problems FILE --run-dir FOLDER

The rule `train` starts this command. A run's launcher, or the supervisor of its vLLM server, starts the command again,
once for each process of the run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from reward_ablation.config.trl_settings import check_version
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.heartbeat import STARTING, STOPPED, beat
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.files import sha256
from reward_ablation.system.imports import large_imports
from reward_ablation.system.locks import wait_for
from reward_ablation.training.around.job import Engine, Server, TrainingJob
from reward_ablation.training.around.launch.processes import lay_out_processes
from reward_ablation.training.around.launch.worker import (
    is_worker,
    is_zero_worker,
    leave,
    need_no_compiler,
    refuse_other_launchers,
)

STARTED = time.perf_counter()


def is_finished(job: TrainingJob) -> bool:
    """Whether the run's whole result exists. The server of such a run need not be started."""
    if not (job.run_dir / HIDDEN_RECORD).is_file():
        return False
    from reward_ablation.training.around.finish import finished  # imports transformers

    inputs = {"model": sha256(job.model / "model.json"), "problems": sha256(job.problems)}
    return finished(job.run_dir, {"spec": job.spec.content(), "code": job.code, "inputs": inputs}, job.any_code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.training", description=__doc__.splitlines()[0])
    parser.add_argument("--spec", required=True, help="canonical JSON of what decides the run, its seed included")
    parser.add_argument("--code", required=True, help="digest of the training code, for the record")
    parser.add_argument("--model", required=True, type=Path, help="folder of the base model")
    parser.add_argument("--problems", required=True, type=Path, help="prepared training set, Parquet")
    parser.add_argument("--run-dir", required=True, type=Path, help="folder for the run's outputs")
    parser.add_argument("--nodes", default=1, type=int, help="how many nodes share the run's processes")
    parser.add_argument("--vllm-memory-percent", default=30, type=int, help="share of a GPU's memory for vLLM")
    parser.add_argument("--vllm-sleep", default=0, type=int, choices=(0, 1), help="1: free it while training")
    parser.add_argument("--reward-models", default={}, type=json.loads, help="JSON: folder of each reward model")
    parser.add_argument(
        "--parameters", default={}, type=json.loads, help="JSON: parameters of each component that decide no score"
    )
    parser.add_argument("--tracking", default={}, type=json.loads, help="JSON: settings of experiment trackers")
    parser.add_argument("--any-code", action="store_true", help="keep a whole result that other code, or data, made")
    arguments = parser.parse_args()
    server = Server.of_environment()
    job = TrainingJob(
        RunSpec.parse(arguments.spec),
        arguments.code,
        arguments.model,
        arguments.problems,
        arguments.run_dir,
        Engine(arguments.vllm_memory_percent / 100, bool(arguments.vllm_sleep), server),
        arguments.tracking,
        {name: Path(folder) for name, folder in arguments.reward_models.items()},
        arguments.parameters,
        server.started if server else STARTED,
        arguments.any_code,
    )
    status = train(job, arguments.nodes)
    if is_zero_worker():
        leave(status)
    sys.exit(status)


def train(job: TrainingJob, nodes: int) -> int:
    """Train the run, or start the processes that train it; return the exit status."""
    refuse_other_launchers()
    check_version()
    # The processes of one start share the run's lock. Another start of the run cannot take it.
    with wait_for(job.run_dir / LOCK, "train", shared=is_worker()) as lock:
        if training_digest(job.spec.functions) != job.code:
            raise StudyError("the training code has changed since the workflow was started; start it again")
        if job.spec.has_server and not is_worker() and is_finished(job):
            print(f"train: {job.run_dir} is trained already; to train it again, delete the folder", flush=True)
            return 0
        if not is_worker():
            beat(job.work, STARTING)
        lay_out_processes(job, nodes, [lock])
        if is_zero_worker() and job.spec.gpus == 0:
            need_no_compiler()

        with large_imports():  # only now, because laying out processes may replace this one
            from reward_ablation.training.around.interruption import Stopped
            from reward_ablation.training.around.run import train_run

        try:
            train_run(job)
        except Stopped as stopped:
            beat(job.work, STOPPED, step=stopped.step, why=stopped.reason)
            print(f"train: {stopped}", flush=True)
            return GOES_ON
    return 0


if __name__ == "__main__":
    with one_line_errors():
        main()
