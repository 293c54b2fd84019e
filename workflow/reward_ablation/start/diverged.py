"""The runs of a study that diverged under its present config, code and inputs: a start goes on without them."""

from __future__ import annotations

from dataclasses import replace

from reward_ablation.start.history import read_record
from reward_ablation.start.stale import PresentInputs, stale_because
from reward_ablation.study.partial import listed
from reward_ablation.study.run_folder import DIVERGED
from reward_ablation.study.study import Study


def with_diverged(study: Study) -> Study:
    """The study with its diverged runs, and a warning that names them."""
    runs, present = study.root / study.config.root / "runs", PresentInputs(study)
    diverged = {
        name: record["step"]
        for name, run in study.runs.items()
        if (record := read_record(runs / name, DIVERGED))
        and isinstance(record.get("step"), int)
        and stale_because(record, run, present) is None
    }
    if not diverged:
        return study
    names = listed([f"{name} at step {step}" for name, step in diverged.items()])
    warning = f"diverged, and left out of evaluations, tables and figures: {names}"
    return replace(study, diverged=diverged, warnings=[*study.warnings, warning])
