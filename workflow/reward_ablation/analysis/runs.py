"""What a run recorded about itself, checked against the study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.study.errors import StudyError
from reward_ablation.study.files import sha256


def first_difference(recorded: Any, planned: Any, key: str = "spec") -> str | None:
    """Tell the first key under which two specs differ and both its values; None where they are equal."""
    if isinstance(recorded, dict) and isinstance(planned, dict):
        for name in sorted(recorded.keys() | planned.keys()):
            difference = first_difference(
                recorded.get(name, "(absent)"), planned.get(name, "(absent)"), f"{key}.{name}"
            )
            if difference is not None:
                return difference
        return None
    if recorded == planned:
        return None
    return f"{key} is {json.dumps(recorded)} there and {json.dumps(planned)} in the study"


def present_inputs(study: StudyFile, root: Path) -> dict[str, str]:
    """Digests of the base model's record and the training set as they are now; one that is gone is left out."""
    return {name: sha256(root / path) for name, path in study.inputs.items() if (root / path).is_file()}


def read_run(run: StudyRun, root: Path, inputs: dict[str, str]) -> dict[str, Any]:
    """Read a run's `run.json`; a run with another spec, seed, model or data than the study's is refused.

    Parameters
    ----------
    inputs : dict
        Digests that the run's inputs must have had: the spec says where data come from, and new code
        may make other rows of the same source.
    """
    path = root / run.folder / "run.json"
    rerun = f"delete {root / run.folder} and run the workflow again"
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file, so the run is not finished; {rerun}") from None
    except json.JSONDecodeError:
        raise StudyError(f"{path}: is not JSON; {rerun}") from None
    difference = first_difference(
        {"spec": record.get("spec"), "seed": record.get("seed")}, {"spec": run.spec, "seed": run.seed}, "run"
    )
    if difference is not None:
        raise StudyError(f"{root / run.folder}: trained under another config: {difference}; {rerun}")
    for name, digest in inputs.items():
        if record["inputs"][name] != digest:
            raise StudyError(f"{root / run.folder}: trained on another version of its {name}; {rerun}")
    return record


def run_row(run: StudyRun, record: dict[str, Any]) -> dict[str, Any]:
    """The run's row of the table of runs; hardware and packages as JSON text."""
    return {
        "arm": run.arm,
        "key": run.key,
        "seed": run.seed,
        "steps": record["steps"],
        "wall_seconds": record["wall_seconds"],
        "gpu_hours": record["gpu_hours"],
        "code": record["code"],
        "hardware": json.dumps(record["hardware"], sort_keys=True),
        "packages": json.dumps(record["packages"], sort_keys=True),
    }
