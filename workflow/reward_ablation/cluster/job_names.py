"""Names and comments of the Slurm jobs of a study, by which a later start knows them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def prefix(study: str, results: Path) -> str:
    """What the names of a study's jobs begin with: the study's name, and a digest of its results folder."""
    digest = hashlib.sha256(str(results.resolve()).encode()).hexdigest()
    return f"{study}-{digest[:6]}"


def job_name(of_study: str, rule: str, wildcards: str = "") -> str:
    """Name of the job of a rule, such as `demo-1f2e3d.train.mixed-1a2b3c4d_seed0`.

    Parameters
    ----------
    of_study : str
        The study's prefix.
    wildcards : str
        Values of the wildcards; slashes become `_`.
    """
    parts = [of_study, rule, wildcards.replace("/", "_")]
    return ".".join(part for part in parts if part)


def digest_of(params: Iterable[object]) -> str:
    """Digest of a job's params: jobs of two starts that agree in it and in their name do the same."""
    return hashlib.sha256("\0".join(map(str, params)).encode()).hexdigest()[:12]


def params_in(comment: str) -> str:
    """The digest in a job's comment, which ends with `params=<digest>`."""
    return comment.rpartition("params=")[2]
