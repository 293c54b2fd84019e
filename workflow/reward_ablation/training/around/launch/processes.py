"""Layout of one run's processes: this process alone, or several by launchers, and a vLLM server beside them.

The training command calls it before it imports torch, because another process may train in its place. The checks before
a start ask it whether a run's packages are installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from reward_ablation.config.sections.launch import DDP
from reward_ablation.data.prepared import verify_problems
from reward_ablation.spec.run import Layout
from reward_ablation.study.heartbeat import beat
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import claim_gpus
from reward_ablation.system.locks import Lock
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.launch.guardian import STOPS
from reward_ablation.training.around.launch.vllm_server import ServerPlan, free_port, train_beside_server
from reward_ablation.training.around.launch.worker import ERROR_STAYS, is_worker


def lay_out_processes(job: TrainingJob, nodes: int, locks: list[Lock]) -> None:
    """Start the processes that a run's spec asks for; return only in a process that has to train.

    If the run has several processes, a launcher replaces this process and starts them. If a vLLM server serves the run,
    this process stays: it starts the server, then the training, and ends with them. On several nodes, this process
    stays too, in the batch script of a Slurm job: it starts a launcher on each node by srun.

    A run sees only its own GPUs, because TRL would spread one process's model over all visible GPUs. The locks on the
    run and on its GPUs are held until all processes of the run have ended.
    """
    spec = job.spec
    check_installed(spec)
    serves = spec.has_server and not is_worker()
    # On several nodes, Slurm has allocated the GPUs, and no locks are needed.
    server = spec.server_gpus if serves else 0
    gpus = spec.gpus + server if nodes == 1 else 0
    locks = [*locks, *(claim_gpus(gpus, "train", server) if gpus else [])]
    if is_worker() or (spec.process_count == 1 and not serves):
        return
    if spec.gpus == 0 and spec.strategy == DDP:  # with this variable, accelerate ignores DeepSpeed
        os.environ["ACCELERATE_USE_CPU"] = "true"
    for lock in locks:
        lock.share()  # with the processes that this process starts
    if nodes > 1:
        more = ["--nodes", str(nodes), "--port", str(free_port())]
        sys.exit(_end_with([*srun_command(nodes), *training_command(spec, *more)], job.run_dir))
    if serves:
        keep = [lock.descriptor for lock in locks if lock.descriptor is not None]
        verify_problems(job.problems)
        plan = ServerPlan.of(job)
        beat(job.work, "starting the vLLM server")
        sys.exit(train_beside_server(plan, training_command(spec), os.environ, spec.gpus, keep))
    for lock in locks:
        lock.keep_over_exec()
    os.execv(sys.executable, training_command(spec))  # a signal to the job reaches the launcher


def training_command(layout: Layout, *more: str) -> list[str]:
    """Command that starts a run's processes on one node, with this process's options and `more` of the launcher."""
    if layout.process_count == 1:
        return [sys.executable, "-m", "reward_ablation.training", *sys.argv[1:]]
    launcher = [sys.executable, "-m", "reward_ablation.training.around.launch.launcher"]
    launcher += ["--processes", str(layout.process_count), "--strategy", layout.strategy, *more]
    return [*launcher, "--", *sys.argv[1:]]


def check_installed(layout: Layout) -> None:
    """Refuse a run for which a package is not installed."""
    for package in layout.packages:
        if find_spec(package) is None:
            key = "vllm" if package == "vllm" else "strategy"
            raise StudyError(
                f"launch.{key}: the package {package} is not installed; `make install LOCK=gpu` installs it"
            )


def srun_command(nodes: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Start of a command line that runs a command on each node of a Slurm job, and ends all if one fails."""
    job = environment.get("SLURM_JOB_ID")
    if job is None or "SLURMD_NODENAME" not in environment:  # salloc's shell may run outside the job's nodes
        raise StudyError(
            f"launch.nodes: a run on {nodes} nodes must be started by a Slurm job's batch script, and this process is "
            "not in one; start with --profile profiles/slurm, or set launch.nodes: 1"
        )
    available = environment.get("SLURM_JOB_NUM_NODES", "1")
    if int(available) < nodes:
        raise StudyError(
            f"launch.nodes: the run needs {nodes} nodes, and Slurm job {job} has {available}; submit the job with "
            f"--nodes={nodes}"
        )
    command = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
    command += ["--export=ALL", "--mpi=none", "--input=none", "--quiet"]  # whatever the site's defaults are
    if cpus := environment.get("SLURM_CPUS_PER_TASK"):  # since Slurm 22.05, srun ignores this variable
        command.append(f"--cpus-per-task={cpus}")
    return command


def _end_with(srun: list[str], run_dir: Path) -> int:
    """Run srun, pass signals on to the processes of the job, and return the run's exit status.

    When one node fails, srun ends the others, and its status may be of their signal. The launcher of a node with a
    permanent error therefore creates a file. At a signal, srun itself would kill all that it has started. It runs in a
    session of its own, and `scancel` sends the signal to the processes on all nodes.
    """
    # The file has a new name each time, because network file systems remember for a while that a file does not exist.
    marker = run_dir / f".error-stays-{uuid.uuid4().hex[:12]}"
    process = subprocess.Popen(srun, start_new_session=True, env={**os.environ, ERROR_STAYS: str(marker)})

    def pass_on(number: int, frame: object) -> None:
        job, name = os.environ["SLURM_JOB_ID"], signal.Signals(number).name
        # Reaches all processes of the job except the batch script.
        subprocess.run(["scancel", f"--signal={name}", job], capture_output=True)

    for number in STOPS:
        signal.signal(number, pass_on)
    status = process.wait()
    error_stays = marker.exists()
    marker.unlink(missing_ok=True)
    return 1 if error_stays else status
