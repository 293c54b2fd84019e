"""Processes of one run: this one, several by a launcher on each of the run's nodes, and beside them a vLLM server."""

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
from reward_ablation.data.verify import verify_problems
from reward_ablation.study.heartbeat import beat
from reward_ablation.study.run_folder import VLLM_LOG, WORK
from reward_ablation.study.run_spec import Layout, RunSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import claim_gpus
from reward_ablation.system.locks import Lock
from reward_ablation.training.around.launch.beside_server import train_beside_server
from reward_ablation.training.around.launch.vllm_server import Engine, ServerPlan, free_port, longest_text
from reward_ablation.training.around.launch.worker import ERROR_STAYS, is_worker


def lay_out_processes(
    spec: RunSpec, nodes: int, locks: list[Lock], model: Path, problems: Path, run_dir: Path, engine: Engine
) -> None:
    """Have a run trained by the processes that its spec asks for; return where this is the only one, or one of them.

    Several processes are started by a launcher, which replaces this process. Where vLLM serves the run, this process
    stays: it starts the server, then the training, and ends with them.

    A run sees its own GPUs only, which no other run has unless the runs share a GPU: TRL would spread the model of one
    process over all GPUs that it sees. The `locks` on the run, and those on its GPUs, are held until all processes of
    the run are gone.

    On more than one of `nodes`, the batch script of a Slurm job starts this.

    Raises
    ------
    StudyError
        There are fewer nodes, a package is not installed, or the server does not start or ends too early.
    """
    check_installed(spec)
    serves = spec.has_server and not is_worker()
    # On several nodes the GPUs are those that Slurm gave the job.
    server = spec.server_gpus if serves else 0
    gpus = spec.gpus + server if nodes == 1 else 0
    locks = [*locks, *(claim_gpus(gpus, "train", server, engine.gpu_share) if gpus else [])]
    if is_worker() or (spec.process_count == 1 and not serves):
        return
    if spec.gpus == 0 and spec.strategy == DDP:  # with it accelerate forgets DeepSpeed
        os.environ["ACCELERATE_USE_CPU"] = "true"
    for lock in locks:
        lock.share()  # with the processes that are started here
    if nodes > 1:
        more = ["--nodes", str(nodes), "--port", str(free_port())]
        sys.exit(_end_with([*srun_command(nodes), *training_command(spec, *more)], run_dir))
    if serves:
        keep = [lock.descriptor for lock in locks if lock.descriptor is not None]
        plan = server_plan(spec, model, problems, run_dir, engine)
        beat(run_dir / WORK, "starting the vLLM server")
        sys.exit(train_beside_server(plan, training_command(spec), os.environ, spec.gpus, keep))
    for lock in locks:
        lock.keep_over_exec()
    os.execv(sys.executable, training_command(spec))  # a signal to the job reaches the launcher


def training_command(layout: Layout, *more: str) -> list[str]:
    """The command that starts a run's processes on one node, by this process' options and more of the launcher."""
    if layout.process_count == 1:
        return [sys.executable, "-m", "reward_ablation.training", *sys.argv[1:]]
    launcher = [sys.executable, "-m", "reward_ablation.training.around.launch.launcher"]
    launcher += ["--processes", str(layout.process_count), "--strategy", layout.strategy, *more]
    return [*launcher, "--", *sys.argv[1:]]


def server_plan(spec: RunSpec, model: Path, problems: Path, run_dir: Path, engine: Engine) -> ServerPlan:
    verify_problems(problems)
    assert spec.vllm
    return ServerPlan(
        model=model,
        log=run_dir / VLLM_LOG,
        gpus=spec.vllm.gpus,
        tensor_parallel_size=spec.vllm.tensor_parallel_size,
        memory=engine.memory,
        max_model_length=longest_text(spec, model, problems),
        model_impl=spec.training.get("vllm_model_impl"),
    )


def check_installed(layout: Layout) -> None:
    """Refuse a layout whose packages are not installed here."""
    for package in layout.packages:
        if find_spec(package) is None:
            key = "vllm" if package == "vllm" else "strategy"
            raise StudyError(
                f"launch.{key}: the package {package} is not installed; `make install LOCK=gpu` installs it"
            )


def srun_command(nodes: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The start of a command line that runs a command on each node of a Slurm job, and ends all where one fails.

    Raises
    ------
    StudyError
        This is no Slurm job, or a job of fewer nodes.
    """
    job = environment.get("SLURM_JOB_ID")
    if job is None or "SLURMD_NODENAME" not in environment:  # salloc's shell may be on no node of its job
        raise StudyError(
            f"launch.nodes: a run on {nodes} nodes is started by a Slurm job's batch script, and this is none; "
            "start with --profile profiles/slurm, or set launch.nodes: 1"
        )
    there = environment.get("SLURM_JOB_NUM_NODES", "1")
    if int(there) < nodes:
        raise StudyError(
            f"launch.nodes: a run on {nodes} nodes, and Slurm job {job} has {there}; submit it with --nodes={nodes}"
        )
    command = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
    command += ["--export=ALL", "--mpi=none", "--input=none", "--quiet"]  # whatever the site's defaults are
    if cpus := environment.get("SLURM_CPUS_PER_TASK"):  # which srun does not take over since Slurm 22.05
        command.append(f"--cpus-per-task={cpus}")
    return command


def _end_with(srun: list[str], run_dir: Path) -> int:
    """Run srun, pass signals on to the processes of the job, and return the run's exit status.

    The status of srun does not tell an error that stays: srun ends the other nodes, and a signal that ended one of them
    counts more than any status. So the launcher of a node that meets such an error leaves a file in the run's folder.

    srun kills all that it has started where it gets a signal itself. So srun runs in a session of its own, which our
    signals do not reach, and `scancel` sends the signal to the processes on all nodes.
    """
    word = run_dir / f".error-stays-{uuid.uuid4().hex[:12]}"  # a new name: file systems remember what is not there
    process = subprocess.Popen(srun, start_new_session=True, env={**os.environ, ERROR_STAYS: str(word)})

    def tell(number: int, frame: object) -> None:
        job, name = os.environ["SLURM_JOB_ID"], signal.Signals(number).name
        subprocess.run(["scancel", f"--signal={name}", job], capture_output=True)  # all of the job but its batch script

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    status = process.wait()
    try:
        word.unlink()
    except FileNotFoundError:
        return status
    return 1
