"""A study's jobs among those that Slurm lists, and what each of them makes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from reward_ablation.cluster.job_names import job_name
from reward_ablation.cluster.slurm import SlurmJob


def live_jobs(of_study: str, jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Jobs of a study that wait or run, by name."""
    return {job.name: job for job in jobs if job.live and job.name.startswith(f"{of_study}.")}


def run_jobs(of_study: str, runs: Iterable[str], jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Training jobs of a study that wait or run, by the run's name, `{arm}-{key}/seed{seed}`."""
    live = live_jobs(of_study, jobs)
    named = {run: job_name(of_study, "train", run) for run in runs}
    return {run: live[name] for run, name in named.items() if name in live}


def digest_of(params: Iterable[object]) -> str:
    """Digest of a job's params: jobs of two starts that agree in it and in their name do the same."""
    return hashlib.sha256("\0".join(map(str, params)).encode()).hexdigest()[:12]


def params_in(comment: str) -> str:
    """The digest in a job's comment, which ends with `params=<digest>`."""
    return comment.rpartition("params=")[2]
