"""The primary question of a config, checked against its arms, data sets and evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.config.arm_names import arms_here
from reward_ablation.config.sections.primary import metrics_of_mode
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.study.primary import Contrast, Question


def question_of(study: StudyConfig, arms: Sequence[str]) -> Question:
    """The primary question of a config, with defaults filled in. `arms` are the names of all arms.

    Raises ValueError if a data set, an arm or a metric is unknown, a mode is switched off, an arm is compared with
    itself, or a contrast is listed twice.
    """
    written, datasets = study.primary, list(study.data.evaluation)
    if written.dataset is not None and written.dataset not in datasets:
        raise ValueError(f"primary.dataset: unknown data set '{written.dataset}'; data sets: {', '.join(datasets)}")
    mode = written.mode or ("greedy" if study.evaluation.greedy else "sampled")
    if mode == "greedy" and not study.evaluation.greedy:
        raise ValueError("primary.mode: greedy is switched off; set evaluation.greedy to true, or mode to sampled")
    if mode == "sampled" and not study.evaluation.samples:
        raise ValueError("primary.mode: sampled is switched off; set evaluation.samples above 0, or mode to greedy")
    metrics = metrics_of_mode(study.evaluation, mode)
    metric = written.metric or next(name for name in ("accuracy_strict", *study.evaluation.metrics) if name in metrics)
    if metric not in metrics:
        raise ValueError(f"primary.metric: unknown metric {metric!r}; metrics in mode {mode}: {', '.join(metrics)}")
    return Question(dataset=written.dataset or datasets[0], mode=mode, metric=metric, contrasts=_contrasts(study, arms))


def _contrasts(study: StudyConfig, arms: Sequence[str]) -> list[Contrast]:
    """The contrasts of a config. If the config lists none, each other arm is compared with the baseline."""
    baseline = study.baseline or arms[0]
    listed = study.primary.contrasts
    if listed is None:
        return [Contrast(arm=arm, against=baseline) for arm in arms if arm != baseline]
    contrasts: list[Contrast] = []
    for number, written in enumerate(listed):
        contrast = Contrast(arm=written.arm, against=written.against or baseline)
        for arm in (contrast.arm, contrast.against):
            if arm not in arms:
                raise ValueError(f"primary.contrasts.{number}: unknown arm '{arm}'; {arms_here(arm, arms)}")
        if contrast.arm == contrast.against:
            raise ValueError(f"primary.contrasts.{number}: {contrast}; name two arms that differ")
        if {contrast.arm, contrast.against} in [{other.arm, other.against} for other in contrasts]:
            raise ValueError(f"primary.contrasts.{number}: {contrast} is listed twice, in one order or the other")
        contrasts.append(contrast)
    return contrasts
