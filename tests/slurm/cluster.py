"""A real Slurm cluster on this machine: several virtual nodes, started in seconds, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from . import accounting as database
from .configuration import write_files

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

#: The last state of a job; COMPLETING is none.
FINISHED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}
FINISHED |= {"TIMEOUT"}


class Job(NamedTuple):
    """What squeue says of a job."""

    id: str
    name: str
    state: str
    reason: str
    partition: str
    nodes: str


class Cluster:
    """Its daemons and its folder; a context manager.

    It has two nodes of 8 CPUs and 16 GB, with `gpus` GPUs in each. The folder's path must be short (a socket's path has
    107 characters at most). With `most_jobs`, so many jobs may wait and run at a time in the account `lab`, and jobs
    are kept in a database, for sacct: this needs Debian's slurmdbd and mariadb-server-core.
    """

    nodes = ("n1", "n2")

    def __init__(self, folder: Path, gpus: int = 2, most_jobs: int | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.gpus = gpus
        self.most_jobs = most_jobs
        self.daemons: dict[str, subprocess.Popen] = {}
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH", "SQUEUE"))}
        #: Of a process that uses this cluster.
        self.environment = outside | {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _path()}

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all daemons, and wait until every node is idle."""
        write_files(self.folder, self.nodes, self.gpus, accounting=self.most_jobs is not None)
        self._start_munge()
        if self.most_jobs is not None:
            self._start_accounting()
        self.start_controller(wait=False)
        for node in self.nodes:
            self.start_node(node)
        self.wait_idle()

    def stop(self) -> None:
        """End all daemons and all processes of jobs. The folder stays."""
        _kill(self._processes_of_jobs())
        for name in reversed(list(self.daemons)):
            self._end(name, signal.SIGTERM)
        _kill(self._processes_of_jobs())

    def stop_controller(self) -> None:
        """Let no Slurm command get an answer, as at a controller's restart or a network fault. Jobs run on."""
        self._end("slurmctld", signal.SIGTERM)

    def start_controller(self, wait: bool = True) -> None:
        """Start the controller with the state that it saved."""
        self._start("slurmctld", "slurmctld", "-D", "-i")
        if wait:
            wait_until("the controller", lambda: self._try("scontrol", "ping").endswith("is UP"))

    def kill_node(self, name: str) -> None:
        """End a node with all that runs on it at once, as at a power failure.

        The controller takes it as down, which it would do by itself after SlurmdTimeout (300 s).
        """
        self._end(name, signal.SIGKILL)
        _kill(self._processes_of_jobs(name))
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=killed")

    def start_node(self, name: str) -> None:
        """Start a node, for the first time or again."""
        self._start(name, "slurmd", "-D", "-N", name)

    def run(self, *command: str) -> str:
        """Output of a Slurm command."""
        done = subprocess.run(command, env=self.environment, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout.strip()

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch script, given as its text without the first line, and return the job's id."""
        path = self.folder / "scripts" / f"{random.getrandbits(64):x}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        log = f"--output={self.folder}/jobs/%j.log"
        return self.run("sbatch", "--parsable", log, *options, str(path))

    def log(self, job: str) -> str:
        """What a submitted job wrote until now."""
        path = self.folder / "jobs" / f"{job}.log"
        return path.read_text() if path.exists() else ""

    def jobs(self) -> list[Job]:
        """All jobs that the controller remembers, finished ones too."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%i|%j|%T|%r|%P|%N").splitlines()
        return [Job(*line.split("|")) for line in lines]

    def live(self, text: str = "") -> list[Job]:
        """Jobs that wait or run and have a text in their name."""
        return [job for job in self.jobs() if text in job.name and job.state in ("PENDING", "RUNNING")]

    def state(self, job: str) -> str:
        """State of a job, such as RUNNING."""
        return next(one.state for one in self.jobs() if one.id == job)

    def wait_for(self, job: str, *states: str, seconds: float = 60) -> str:
        """Wait until a job is in one of some states (without any: until it is finished), and return the state."""
        wanted = set(states) or FINISHED
        wait_until(f"job {job} in {sorted(wanted)}", lambda: self.state(job) in wanted, seconds)
        return self.state(job)

    def wait_log(self, job: str, text: str, seconds: float = 60) -> None:
        """Wait until a job has written a text."""
        wait_until(f"job {job} to write {text!r}", lambda: text in self.log(job), seconds)

    def start_now(self, job: str) -> None:
        """Let a job that was put back into the queue wait no longer."""
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")

    def wait_idle(self, seconds: float = 60) -> None:
        """Wait until every node is there and does nothing."""

        def idle() -> bool:
            self._check_daemons()
            states = self._try("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%T").split()
            return states == ["idle"] * len(self.nodes)

        wait_until("idle nodes", idle, seconds)

    def clear(self) -> None:
        """Mend the cluster and end all jobs: the state after the start, but for the jobs that it remembers."""
        if "slurmctld" not in self.daemons:
            self.start_controller()
        for node in self.nodes:
            if node not in self.daemons:
                self.start_node(node)
        live = [job.id for job in self.jobs() if job.state not in FINISHED]
        if live:
            self.run("scancel", *live)
        for line in self.run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %T").splitlines():
            name, state = line.split()
            if state.rstrip("*") in ("down", "drained", "draining", "drng", "error", "fail"):
                with contextlib.suppress(RuntimeError):  # it has come back meanwhile
                    self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
        self.wait_idle()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = {"key-file": "munge.key", "pid-file": "munge.pid", "seed-file": "munge.seed", "socket": "munge.socket"}
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        # Forced: else it refuses a folder that others may write to, as one below /tmp.
        self._start("munged", "munged", "--foreground", "--force", "--group-update-time=-1", *options)
        wait_until("munged", (self.folder / "munge.socket").exists)

    def _start_accounting(self) -> None:
        command = database.server(self.folder)
        database.make_tables(command, self.folder, self.environment)
        self._start("mariadbd", *command)
        wait_until("mariadbd", (self.folder / database.SOCKET).exists)
        self._start("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(self.folder / database.SOCKET))
        wait_until("slurmdbd", lambda: self._try("sacctmgr", "--immediate", "add", "cluster", "test") != "")
        add = ("sacctmgr", "--immediate", "add")
        self.run(*add, "account", "lab")
        user = psutil.Process().username()
        self.run(*add, "user", user, "account=lab", f"MaxSubmitJobs={self.most_jobs}")

    def _start(self, name: str, program: str, *arguments: str, **variables: str) -> None:
        # It ends with this process, even where that is killed.
        command = ["setpriv", "--pdeathsig", "TERM", program, *arguments]
        with (self.folder / f"{name}.out").open("ab") as output:
            environment = self.environment | variables
            self.daemons[name] = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _end(self, name: str, number: signal.Signals) -> None:
        daemon = self.daemons.pop(name)
        daemon.send_signal(number)
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _check_daemons(self) -> None:
        for name, daemon in self.daemons.items():
            if daemon.poll() is not None:
                last = (self.folder / f"{name}.out").read_text().strip().splitlines()[-1:]
                raise RuntimeError(f"{name} ended with status {daemon.returncode}: {last}; logs in {self.folder}")

    def _try(self, *command: str) -> str:
        """Output of a Slurm command, nothing where it fails."""
        try:
            return self.run(*command)
        except RuntimeError:
            return ""

    def _processes_of_jobs(self, node: str | None = None) -> list[psutil.Process]:
        """Processes of this cluster's jobs, or of one node's; those first that would tell the controller of an end."""
        nodes = [node] if node else self.nodes
        logs = {str(self.folder / f"slurmd-{name}.log") for name in nodes}
        managers, others = [], []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                # A step's manager has no environment, but writes to the log of its node.
                if process.name() == "slurmstepd" and logs & {file.path for file in process.open_files()}:
                    managers.append(process)
                variables = process.environ()
                ours = variables.get("SLURM_CONF") == self.environment["SLURM_CONF"]
                if ours and variables.get("SLURMD_NODENAME") in nodes:
                    others.append(process)
        return managers + others


def wait_until(what: str, is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds. The error names the condition if it never does."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until("killed processes", lambda: all(is_dead(process) for process in processes))


def is_dead(process: psutil.Process) -> bool:
    """Whether a process has ended. A zombie has ended."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _path() -> str:
    """A search path with the folders of daemons, which are not on every user's path."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def missing_programs(accounting: bool = False) -> list[str]:
    """Programs that a cluster needs and this machine lacks."""
    needed = PROGRAMS + database.PROGRAMS if accounting else PROGRAMS
    return [program for program in needed if shutil.which(program, path=_path()) is None]
