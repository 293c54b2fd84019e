"""The claims that a config makes, checked against its arms, data sets and evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.config.arm_names import arms_here
from reward_ablation.config.sections.claims import ClaimOnArms
from reward_ablation.config.sections.primary import metrics_of_mode
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.study.claims import Claim
from reward_ablation.study.primary import Question

#: Name of the model before training. A claim may compare an arm with it, and no arm may have this name.
BASE = "base"


def claims_of(study: StudyConfig, arms: Sequence[str], question: Question) -> list[Claim]:
    """The claims of a config, in the config's order, with defaults filled in.

    The default baseline is the first arm. The default data set and mode are those of the primary question. Raises
    ValueError if a data set, an arm or a metric is unknown, a mode is switched off, an arm is compared with itself, or
    a claim is made twice.
    """
    claims: list[Claim] = []
    for name, written in study.claims.items():
        claim = _claim(study, name, written, arms, question)
        twin = next((other.name for other in claims if other.key == claim.key), None)
        if twin is not None:
            raise ValueError(f"claims.{name}: judges the same as claims.{twin}; take one of them out")
        claims.append(claim)
    return claims


def _claim(study: StudyConfig, name: str, written: ClaimOnArms, arms: Sequence[str], question: Question) -> Claim:
    """One claim, checked."""
    where, datasets = f"claims.{name}", list(study.data.evaluation)
    against = written.against or study.baseline or arms[0]
    dataset, mode = written.dataset or question.dataset, written.mode or question.mode
    if written.arm not in arms:
        raise ValueError(f"{where}.arm: unknown arm '{written.arm}'; {arms_here(written.arm, arms)}")
    if against not in (*arms, BASE):
        raise ValueError(f"{where}.against: unknown arm '{against}'; {arms_here(against, [*arms, BASE])}")
    if written.arm == against:
        raise ValueError(f"{where}: compares {against} with itself; name two arms that differ, or against: base")
    if dataset not in datasets:
        raise ValueError(f"{where}.dataset: unknown data set '{dataset}'; data sets: {', '.join(datasets)}")
    if mode == "greedy" and not study.evaluation.greedy:
        raise ValueError(f"{where}.mode: greedy is switched off; set evaluation.greedy to true, or mode to sampled")
    if mode == "sampled" and not study.evaluation.samples:
        raise ValueError(f"{where}.mode: sampled is switched off; set evaluation.samples above 0, or mode to greedy")
    metrics = metrics_of_mode(study.evaluation, mode)
    if written.metric not in metrics:
        raise ValueError(
            f"{where}.metric: unknown metric {written.metric!r}; metrics in mode {mode}: {', '.join(metrics)}"
        )
    settings = written.model_dump(include={"says", "source", "metric", "arm", "direction", "margin"})
    return Claim(name=name, against=against, dataset=dataset, mode=mode, **settings)
