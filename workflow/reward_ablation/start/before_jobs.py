"""Checks once all jobs are planned and before the first one: TRL takes the settings, runs compare, GPUs are enough."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reward_ablation.config.sections.gpu_number import PARTS, PARTS_OF_A_GPU, share_text
from reward_ablation.config.trl_settings import check_version
from reward_ablation.start.history import read_record
from reward_ablation.start.internals import limit, needed_jobs, runs_here, set_limit
from reward_ablation.start.report_pages import installed
from reward_ablation.study.canonical import canonical
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.provenance import (
    HARDWARE,
    SURROUNDING,
    Quantities,
    Trained,
    comparable_codes,
    quantities,
)
from reward_ablation.study.run_spec import RunSpec
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path
from reward_ablation.system.gpu_fractions import RUNS_ON_A_GPU
from reward_ablation.system.gpus import gpus_here, too_few

#: In the results folder: a digest of the settings that TRL has passed, and of the packages and the code.
PASSED = ".settings_passed"

#: Values seen first, by quantity, and where.
_Seen = dict[str, tuple[str, str]]


def check_training_settings(study: Study, folder: Path) -> None:
    """Have TRL check every distinct set of training settings and processes, in a process of its own.

    Importing TRL takes seconds: the results folder `folder` remembers what TRL has passed. Another TRL than the one
    that the workflow needs is refused.
    """
    check_version()
    settings = "\n".join(study.training_settings)
    packages = canonical({"python": sys.version, **installed()})
    asked = "\0".join([settings, packages, code_digest("reward_ablation.start.ask_trl")])
    digest = hashlib.sha256(asked.encode()).hexdigest()
    record = folder / PASSED
    if record.is_file() and record.read_text() == digest:
        return
    command = [sys.executable, "-m", "reward_ablation.start.ask_trl"]
    result = subprocess.run(command, input=settings, text=True, capture_output=True)
    if result.returncode:
        last_line = (result.stderr.strip().splitlines() or ["the check of the training settings died"])[-1]
        raise StudyError(last_line.removeprefix("error: "))
    with contextlib.suppress(OSError), atomic_path(record) as temporary:  # a folder that refuses is told of elsewhere
        temporary.write_text(digest)


def check_before_training(study: Study, code_counts: bool = True) -> None:
    """Under `mixed_provenance: refuse`, refuse before any job what the rule `tables_provenance` would refuse.

    What hardware the coming runs get is not known yet. With `code_counts`, runs of other code are trained again, so
    that their code does not matter.
    """
    if study.config.mixed_provenance == "tell":
        return
    seen: _Seen = {}
    to_train, trained = False, {}
    for name, run in study.runs.items():
        record = read_record(study.root / study.config.root / "runs" / name)
        if not record or (code_counts and record.get("code") != run.code):
            to_train = True
        elif "attempts" in record:  # else of an older version, which the tables tell
            trained[name] = record
    functions = {name: run.arm_spec.functions for name, run in study.runs.items()}
    codes = comparable_codes(
        {name: Trained(record["code"], functions[name], record.get("modules", {})) for name, record in trained.items()},
        study.functions,
    )
    for name, record in trained.items():
        _compare(seen, quantities({**record, "code": codes[name]}), f"runs/{name}", study)
    if to_train and seen:
        packages = [name for name in seen if name not in {"code", "python", *HARDWARE}]
        coming = {"code": [training_digest(study.functions)], "python": [platform.python_version()]}
        coming |= {name: [version(name)] for name in packages}
        _compare(seen, coming, "the runs to be trained now", study)


def _compare(seen: _Seen, values: Quantities, where: str, study: Study) -> None:
    """Hold values against those seen first."""
    for quantity, of_run in values.items():
        for value in of_run if quantity != SURROUNDING else []:
            first, there = seen.setdefault(quantity, (value, where))
            if value != first:
                raise StudyError(
                    f"{study.config.root}: {quantity} is {first} in {there} and {value} in {where}; delete the runs "
                    "that are to be trained again, install what they were trained with, or set mixed_provenance: tell"
                )


def share_gpus(workflow: Any, tell: Callable[[str], None]) -> None:
    """Let as many runs go side by side as this machine has GPUs for, unless `--resources gpu=N` says how many.

    A job that takes more GPUs than there are is refused. A cluster counts its own GPUs. To be called in `onstart`: a
    dry run looks for no GPU.
    """
    jobs = needed_jobs(workflow) if runs_here(workflow) else []
    largest = max(jobs, key=lambda job: job.resources.get("gpu", 0), default=None)
    asked = largest.resources.get("gpu", 0) if largest else 0
    if largest is None or not asked:
        return
    there = len(gpus_here())
    given = limit(workflow, "gpu")
    if asked > there:
        of_server = RunSpec.parse(largest.params.spec).server_gpus if largest.rule.name == "train" else 0
        raise StudyError(f"launch.gpus: {too_few(asked, there, of_server)}")
    if given is not None and given > there:
        raise StudyError(f"--resources gpu={given}: there are {there} here; leave it out, and all of them are used")
    if parts := [job.resources[PARTS] for job in jobs if job.resources.get(PARTS)]:
        _count_parts(workflow, there if given is None else given, parts, tell)
    elif given is None:
        set_limit(workflow, "gpu", there)
        tell(f"GPUs here: {there}; jobs that take {asked} of them run {there // asked} at a time")


def _count_parts(workflow: Any, gpus: int, parts: list[int], tell: Callable[[str], None]) -> None:
    """Have Snakemake count parts of GPUs, of which jobs take so many, in place of GPUs, which jobs share."""
    least, most = min(parts), gpus * PARTS_OF_A_GPU
    set_limit(workflow, PARTS, max(most, *parts))
    set_limit(workflow, "gpu", gpus * RUNS_ON_A_GPU[-1])
    share = share_text(least / PARTS_OF_A_GPU)
    tell(f"GPUs to share: {gpus}; jobs that take {share} of a GPU run {most // least} at a time")
