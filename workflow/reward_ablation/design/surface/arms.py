"""Which arms of a study file the surface over the weights is fitted to."""

from __future__ import annotations

from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.study.weight_surface import SurfaceArms, surface_arms


def arms_of_file(study: StudyFile) -> SurfaceArms | None:
    """Arms of a study to which the surface is fitted, if any, as in `surface_arms`. Arms that share runs count once."""
    first_arm = {run.key: run.arm for run in reversed(study.runs)}
    specs = {run.arm: run.spec for run in study.runs if first_arm[run.key] == run.arm}
    seeds = {arm: len(study.runs_of(arm)) for arm in specs}
    return surface_arms(study.design, specs, seeds, study.components, study.control)
