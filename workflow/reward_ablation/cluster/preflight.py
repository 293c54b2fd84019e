"""The jobs that a start would submit, held against the site file and the cluster before anything is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.cluster.command import SlurmError
from reward_ablation.cluster.fit import refusal
from reward_ablation.cluster.partitions import Partition, partitions
from reward_ablation.cluster.request import Request, request_of
from reward_ablation.cluster.site import Site, read_site
from reward_ablation.system.errors import StudyError


def check_jobs(jobs: Iterable[Any], site: Site, site_file: Path, cluster: Mapping[str, Partition]) -> str | None:
    """Refuse jobs that Slurm would never run.

    Parameters
    ----------
    jobs : iterable of snakemake.jobs.Job
    cluster : mapping of str to Partition

    Returns
    -------
    str or None
        Why Slurm cannot say of all of the jobs, such as the limit on the number of jobs that is reached.

    Raises
    ------
    StudyError
    """
    unknown = None
    for request in requests_of(jobs, site):
        try:
            refused = refusal(request, site.gpus_by, cluster)
        except SlurmError as error:
            unknown = str(error)
        else:
            if refused:
                raise StudyError(f"{site_file}: {refused}")
    return unknown


def requests_of(jobs: Iterable[Any], site: Site) -> list[Request]:
    """Different requests of jobs, those of a kind of job one after the other.

    Raises
    ------
    StudyError
        A resource of a job is not one that a job can have.
    """
    requests = (request_of(site, job.rule.name, job.resources, job.threads, job.attempt) for job in jobs)
    return sorted(dict.fromkeys(requests), key=lambda request: request.kind)


def check_dry_run(jobs: list[Any], site_file: Path) -> str:
    """Check jobs that a dry run lists as a start would, where Slurm answers.

    Returns
    -------
    str
        For the user: what Slurm says, or that Slurm does not answer.

    Raises
    ------
    StudyError
    """
    site = read_site(site_file)
    requests = requests_of(jobs, site)
    try:
        unknown = check_jobs(jobs, site, site_file, partitions())
    except SlurmError as error:
        unknown = str(error)
    if unknown:
        return f"{site_file}: not checked whether Slurm takes these jobs: {unknown}"
    kinds = dict.fromkeys(request.kind for request in requests)
    return f"{site_file}: Slurm takes these jobs ({', '.join(kinds)})"
