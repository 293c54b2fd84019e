"""Processes of one run: this one on a CPU or one GPU, several by a launcher on each of the run's nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from reward_ablation.study.errors import StudyError
from reward_ablation.study.gpus import claim_gpus
from reward_ablation.study.locks import Lock
from reward_ablation.study.spec import processes_of


def lay_out_processes(spec: dict[str, Any], nodes: int, lock: Lock) -> None:
    """Replace this process by a launcher where a run has several; return where it has one, or this is one of them.

    A run sees its own GPUs only, which no other run has: TRL would spread the model of one process over all that it
    sees. The locks on the run and on its GPUs are held for as long as its launcher lives.

    Parameters
    ----------
    spec : dict
        The run's.
    nodes : int
        How many nodes share its processes; on more than one, this is started by the batch script of a Slurm job.
    lock : Lock
        The run's.

    Raises
    ------
    StudyError
        There are not so many nodes.
    """
    # On several nodes the GPUs are those that Slurm gave the job.
    gpus = claim_gpus(spec["gpus"], "train") if spec["gpus"] and nodes == 1 else []
    if processes_of(spec) == 1 or is_worker():
        return
    command = [sys.executable, "-m", "reward_ablation.training.launcher", "--processes", str(processes_of(spec))]
    if spec["gpus"] == 0:
        os.environ["ACCELERATE_USE_CPU"] = "true"
    if nodes > 1:
        srun = srun_command(nodes)
        lock.share()
        command += ["--nodes", str(nodes), "--port", str(_free_port())]
        sys.exit(_end_with([*srun, *command, "--", *sys.argv[1:]]))
    for each in (lock, *gpus):
        each.keep_over_exec()
    os.execv(sys.executable, [*command, "--", *sys.argv[1:]])  # a signal to the job reaches the launcher


def is_worker() -> bool:
    """Whether a launcher has started this process as one of its run's."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def srun_command(nodes: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The command that starts another one on each of a Slurm job's nodes, once, and ends all where one fails.

    Raises
    ------
    StudyError
        This is no Slurm job, or one of fewer nodes.
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


def _end_with(srun: list[str]) -> int:
    """Run srun, pass signals on to what it has started, and return its exit status.

    srun itself kills all that it has started where it is asked to end. In a session of its own it is not asked, unless
    the job is over anyway, and Slurm tells the processes on all nodes instead.
    """
    process = subprocess.Popen(srun, start_new_session=True)

    def tell(number: int, frame: object) -> None:
        job, name = os.environ["SLURM_JOB_ID"], signal.Signals(number).name
        subprocess.run(["scancel", f"--signal={name}", job], capture_output=True)  # all of the job but its batch script

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    return process.wait()


def _free_port() -> int:
    """A port of this node, the first of its job, that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
