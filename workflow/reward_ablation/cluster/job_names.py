"""Names of the Slurm jobs of a study."""

from __future__ import annotations

import hashlib
from pathlib import Path


def prefix(study: str, results: Path) -> str:
    """What the names of a study's jobs begin with: the study's name, and a digest of its results folder.

    Two studies of one name, in two folders, are two.
    """
    digest = hashlib.sha256(str(results.resolve()).encode()).hexdigest()
    return f"{study}-{digest[:6]}"


def job_name(of_study: str, rule: str, wildcards: str = "") -> str:
    """Name of the job of a rule, such as `demo-1f2e3d.train.mixed-1a2b3c4d_seed0`.

    Parameters
    ----------
    of_study : str
        The study's prefix.
    wildcards : str
        Their values; slashes become `_`.
    """
    parts = [of_study, rule, wildcards.replace("/", "_")]
    return ".".join(part for part in parts if part)
