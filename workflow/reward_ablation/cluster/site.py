"""The site file (profiles/slurm/site.yaml), in which a user describes their cluster once for all studies.

The Slurm executor reads it at its start, and `reward-ablation plan --slurm` for its checks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from reward_ablation.cluster.options import DEFAULTS, check_plugin_option, sbatch_options
from reward_ablation.config.base import Line, Section
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_yaml


class JobSection(Section):
    """What one kind of job asks for. An empty key has the value at the top of the file, or else Slurm's default."""

    partition: Line | None = None
    qos: Line | None = None
    constraint: Line | None = Field(None, description="Features that a node must have, such as infiniband.")
    gpu_type: Line | None = Field(
        None, description="Slurm's name of the GPU type, where a partition has several types: h100."
    )
    mem_gb: float = Field(
        gt=0, le=1e6, allow_inf_nan=False, description="Main memory on each node, without the memory of its GPUs."
    )
    hours: float = Field(
        gt=0,
        le=1e5,
        allow_inf_nan=False,
        description="Time limit; the n-th attempt of an evaluation gets n times as much.",
    )
    cpus: int = Field(1, ge=1, le=100_000, strict=True, description="CPUs on each node.")


class Site(Section):
    """One cluster."""

    account: Line | None = None
    partition: Line | None = None
    qos: Line | None = None
    gpu_type: Line | None = None
    gpus_by: Literal["gpus", "gres"] = Field("gpus", description="How GPUs are asked for: --gpus or --gres=gpu:.")
    bundle: Literal["run"] | None = Field(
        None,
        description="run: a run's evaluation follows its training in the same Slurm job; empty: two Slurm jobs.",
    )
    site_options: tuple[str, ...] = Field(
        (), description="Long names of options that plugins add to this cluster's sbatch, such as container-image."
    )
    sbatch: str | None = Field(None, description="More options for sbatch, as on its command line.")
    train: JobSection
    evaluate: JobSection

    @field_validator("site_options")
    @classmethod
    def _of_plugins(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            check_plugin_option(name)
        return names

    @field_validator("sbatch")
    @classmethod
    def _options(cls, sbatch: str | None, info: ValidationInfo) -> str | None:
        if "site_options" in info.data:  # else site_options has an error, which is reported
            sbatch_options(sbatch, info.data["site_options"])
        return sbatch


def read_site(path: Path) -> Site:
    """Read and check a site file. The variables in `DEFAULTS`, hidden from `sbatch` itself, fill in what it lacks."""
    try:
        written = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; put a site file there or set --slurm-study-site") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from None
    except ValueError as error:
        raise StudyError(f"{path}: {error}") from None
    if not isinstance(written, dict):
        raise StudyError(f"{path}: not a mapping of keys to values; start from a copy of profiles/slurm/site.yaml")
    site = validate_spec(Site, written, str(path))
    values = {key: getattr(site, key) or os.environ.get(variable) or None for key, variable in DEFAULTS.items()}
    return site.model_copy(update=values)
