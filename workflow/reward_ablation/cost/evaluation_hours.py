"""What the evaluations of a run cost, by the records beside their answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

from reward_ablation.analysis.study_file import StudyFile, StudyRun


def evaluation_hours(study: StudyFile, run: StudyRun, root: Path) -> dict[str, float]:
    """Hours of all evaluations of a run's models, by their own clocks; NaN where a record is lost or an old version's.

    Nothing but this is made of the records: a lost one is no reason to evaluate again.
    """
    files = [study.answers_file(dataset, run.name) for dataset in study.datasets]
    if study.keep_models:
        files += [study.kept_answers_file(dataset, run.name) for dataset in study.datasets]
    records = [_hours(root / f"{file.removesuffix('.parquet')}.json") for file in files]
    wall, gpu, cpu = (round(sum(column), 4) for column in zip(*records, strict=True))
    return {"evaluation_wall_hours": wall, "evaluation_gpu_hours": gpu, "evaluation_cpu_hours": cpu}


def _hours(path: Path) -> tuple[float, float, float]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return record["wall_seconds"] / 3600, float(record["gpu_hours"]), float(record["cpu_hours"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return math.nan, math.nan, math.nan
