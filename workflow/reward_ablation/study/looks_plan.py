"""The plan of looks of a config with sequential seeds."""

from __future__ import annotations

from collections.abc import Mapping

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.study.looks import LooksPlan
from reward_ablation.study.primary import Question


def looks_plan(study: StudyConfig, question: Question, keys: Mapping[str, str], evaluation: str) -> LooksPlan | None:
    """The plan of looks; None if the config has a list of seeds.

    `keys` has the key of each arm's spec. `evaluation` is the key of the evaluation's settings. Raises ValueError if
    there is no contrast to decide, or if the config gives both looks and seeds of single arms.
    """
    if study.sequential is None:
        return None
    if not question.contrasts:
        raise ValueError("seeds.looks: there is no contrast to decide, as the study has one arm; write a list of seeds")
    if own := [arm for arm, seeds in study.arms.seeds.items() if seeds]:
        raise ValueError(f"arms.seeds.{own[0]}: seeds.looks decides the seeds of each arm; take one of the two out")
    compared = {arm for contrast in question.contrasts for arm in (contrast.arm, contrast.against)}
    return LooksPlan(
        looks=study.sequential.looks,
        stop=study.sequential.stop,
        margin=study.statistics.equivalence_margin,
        level=round(1 - study.confidence, 9),
        question=question.key_by_names,  # `arms` has the keys
        evaluation=evaluation,
        arms={arm: key for arm, key in keys.items() if arm in compared},
    )
