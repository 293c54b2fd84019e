"""Facts from Slurm: partitions and nodes, this user's jobs, and the times of the job that this process runs in.

The Slurm executor watches its jobs and checks requests against the partitions. `status` tells which runs wait, and a
run in training learns when its job will end. Nothing here changes a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reward_ablation.cluster.command import SlurmError, run_slurm_command
from reward_ablation.cluster.job_names import job_name

#: Fields of `squeue`: job id, state, reason, nodes, start, end, name, comment. No name contains the separator.
_FIELDS = "\x1f".join(["%A", "%T", "%r", "%N", "%S", "%e", "%j", "%k"])

#: States of jobs that may still use the cluster.
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
ENDING = ("COMPLETING", "STAGE_OUT")
#: REVOKED: another cluster of a federation has started the job, under the same number.
LIVE = {*WAITING, "RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "SUSPENDED", "STOPPED", "REVOKED", *ENDING}


@dataclass(frozen=True)
class SlurmJob:
    """A job as `squeue` lists it."""

    id: str
    name: str
    state: str  # in Slurm's long form, such as PENDING or RUNNING
    reason: str  # why the job waits, or why it ended; "None" where Slurm gives no reason
    nodes: str  # such as `n[1-2]`; empty for a job that waits
    start: float | None  # seconds since 1970, here and below; expected, for a job that waits
    end: float | None  # for a job that waits or runs, the end by its time limit
    comment: str = ""  # by `job_names.comment`: which work the job does, for later starts

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def ending(self) -> bool:
        """Whether the job is ending, while its processes may still save their work."""
        return self.state in ENDING


def my_jobs(timeout: float = 20.0) -> list[SlurmJob]:
    """This user's jobs that Slurm still knows: jobs that wait or run, and jobs that ended some minutes ago."""
    options = "--me", "--all", "--states=all", "--noheader", f"--format={_FIELDS}"
    text = run_slurm_command("squeue", *options, timeout=timeout)
    # A line without all fields is no job's, as after a line break in a comment.
    return [_job(line) for line in text.splitlines() if line.count("\x1f") == _FIELDS.count("\x1f")]


def is_live(number: str) -> bool:
    """Whether a job waits or runs. `scontrol` may know a job that `squeue` does not list."""
    state = re.search(r"JobState=(\w+)", run_slurm_command("scontrol", "show", "job", number))
    return state is not None and state[1] in LIVE


def _job(line: str) -> SlurmJob:
    id_, state, reason, nodes, start, end, name, comment = line.split("\x1f")
    return SlurmJob(id_, name, state, reason, nodes, _seconds(start), _seconds(end), comment)


def _seconds(text: str) -> float | None:  # `run_slurm_command` asks for seconds; "N/A" and "Unknown" become None
    return float(text) if text.isdecimal() else None


def live_jobs(of_study: str, jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """A study's jobs that wait or run, by name. Of two jobs with one name, it is the job that is not ending."""
    live = [job for job in jobs if job.live and job.name.startswith(f"{of_study}.")]
    return {job.name: job for job in sorted(live, key=lambda job: not job.ending)}


def run_jobs(of_study: str, runs: Iterable[str], jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Training jobs of a study that wait or run, by the run's name, `{arm}-{key}/seed{seed}`."""
    live = live_jobs(of_study, jobs)
    named = {run: job_name(of_study, "train", run) for run in runs}
    return {run: live[name] for run, name in named.items() if name in live}


@dataclass(frozen=True)
class Node:
    """A node of the cluster."""

    name: str
    cpus: int
    mem_mb: int
    gpus: dict[str, int]  # number of GPUs by type; "" for GPUs without a type
    up: bool = True  # False also for a node that is being drained


@dataclass(frozen=True)
class Partition:
    """A partition of the cluster."""

    name: str
    default: bool
    up: bool
    max_minutes: int | None  # of one job; None without a limit
    nodes: list[Node]
    max_nodes: int | None = None  # of one job; None without a limit


def partitions() -> dict[str, Partition]:
    """All partitions by name."""
    nodes: dict[str, list[Node]] = {}
    for line in run_slurm_command("sinfo", "--Node", "--all", "--noheader", "--format=%R|%N|%c|%m|%T|%G").splitlines():
        partition, name, cpus, memory, state, gres = line.split("|", 5)
        up = not re.match("down|drain|fail|error|unknown|power", state)  # in these, a node takes no new jobs
        nodes.setdefault(partition, []).append(Node(name, _count(cpus), _count(memory), gpus_of(gres), up))
    found = {}
    for line in run_slurm_command("scontrol", "--all", "--oneliner", "show", "partition").splitlines():
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        name = fields["PartitionName"]
        found[name] = Partition(
            name=name,
            default=fields.get("Default") == "YES",
            up=fields.get("State") == "UP",
            max_minutes=minutes_of(fields.get("MaxTime", "UNLIMITED")),
            max_nodes=None if fields.get("MaxNodes", "UNLIMITED") == "UNLIMITED" else int(fields["MaxNodes"]),
            nodes=nodes.get(name, []),
        )
    return found


def minutes_of(text: str) -> int | None:
    """Minutes of a limit in the format of `scontrol`, `[days-]hours:minutes:seconds`; None for other text."""
    if not (match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)):
        return None
    days, hours, minutes, _ = (int(part or 0) for part in match.groups())
    return (days * 24 + hours) * 60 + minutes


def gpus_of(gres: str) -> dict[str, int]:
    """Number of GPUs by type in a node's generic resources, such as `gpu:h200:2(S:0-1),shard:4`."""
    found: dict[str, int] = {}
    for kind, number in re.findall(r"(?:^|,)gpu(?::(\w[\w.+-]*))?:(\d+)", gres):
        found[kind] = found.get(kind, 0) + int(number)
    return found


def _count(text: str) -> int:
    """A number of `sinfo`: 1024 is 1K, 1048576 is 1M; it ends with + where the nodes of a line differ."""
    number = text.rstrip("+")
    return int(float(number.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(number[-1:], 1))


def start_of_job(environment: Mapping[str, str]) -> int | None:
    """Start of the present job, in seconds since 1970; None outside a job, or where the start is not known."""
    return _time(environment, "SLURM_JOB_START_TIME", "%S", "the start of this job is not on record")


def end_of_job(environment: Mapping[str, str]) -> int | None:
    """End of the present job by its time limit, in seconds since 1970; None as for `start_of_job`."""
    if_unknown = "the end of this job is not known, and is waited for as a signal"
    return _time(environment, "SLURM_JOB_END_TIME", "%e", if_unknown)


def _time(environment: Mapping[str, str], variable: str, field: str, if_unknown: str) -> int | None:
    """A time of the present job. Slurm sets a variable with the time since version 23; before, `squeue` lists it."""
    seconds = environment.get(variable, "")
    if not seconds and "SLURM_JOB_ID" in environment:
        try:
            seconds = run_slurm_command(
                "squeue", "--noheader", f"--jobs={environment['SLURM_JOB_ID']}", f"--format={field}"
            ).strip()
        except SlurmError as error:
            print(f"warning: {error}: {if_unknown}", flush=True)
    return int(seconds) if seconds.isdecimal() else None
