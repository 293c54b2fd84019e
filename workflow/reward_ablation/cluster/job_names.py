"""Names and comments of a study's Slurm jobs, by which a later start, `status` and the costs recognise the jobs.

The Slurm executor gives each job its name and comment when it submits the job. A Slurm job of a bundle does several
jobs of Snakemake in turn: it has the name of the first, and its comment tells of all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path


def prefix(study: str, results: Path) -> str:
    """The beginning of the names of a study's jobs: the study's name, and a digest of its results folder."""
    return f"{study}-{_digest(str(results.resolve()), 6)}"


def job_name(of_study: str, rule: str, wildcards: str = "") -> str:
    """Name of the job of a rule, such as `demo-1f2e3d.train.mixed-1a2b3c4d_seed0`."""
    return ".".join(filter(None, [of_study, rule, wildcards.replace("/", "_")]))


def digest_of(params: Iterable[object]) -> str:
    """Digest of a job's params. Jobs of two starts do the same work if their names and digests agree."""
    return _digest("\0".join(map(str, params)), 12)


def comment(what: str, params: str, then: Mapping[str, str]) -> str:
    """Comment of a Slurm job: its first job in words and by digest, and its other jobs (`then`: digests by name)."""
    others = ",".join(f"{_digest(name, 8)}:{digest}" for name, digest in then.items())
    return f"{what} params={params}" + (f" then={others}" if others else "")


def params_in(comment: str) -> str:
    """The digest of the first job in a comment; empty where the comment has none."""
    found = re.search(r" params=(\w+)", comment)
    return found[1] if found else ""


def then_in(comment: str, names: Iterable[str]) -> dict[str, str]:
    """Digests, by name, of the jobs among `names` that a Slurm job does after its first job, as its comment says."""
    found = re.search(r" then=(\S+)", comment)
    digests = dict(each.split(":", 1) for each in found[1].split(",") if ":" in each) if found else {}
    return {name: digests[key] for name in names if (key := _digest(name, 8)) in digests} if digests else {}


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
