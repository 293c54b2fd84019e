"""Table component_effects: what a component does, as contrasts of arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import (
    Answered,
    AnswersReader,
    distribution_of,
    moderated_seed_variance,
    rows_of_parts,
    tested_columns,
)
from reward_ablation.analysis.statistics.contrasts import LACK_OF_FIT, Effect, effects, reach
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.spec.canonical import dump
from reward_ablation.spec.imported import ImportedSpec
from reward_ablation.spec.run import ArmSpec

#: A regression is dropped where its lack of fit has a p-value below this; with few seeds the test has little power.
DOUBTFUL_FIT = 0.2


def arms_with_equal_settings(specs: Mapping[str, ArmSpec | ImportedSpec]) -> list[str]:
    """The largest group of arms whose specs differ only in the weights."""
    settings = {arm: dump(spec.model_copy(update={"weights": {}}).content()) for arm, spec in specs.items()}
    [(most, _)] = Counter(settings.values()).most_common(1) or [("", 0)]
    return [arm for arm in specs if settings[arm] == most]


def effects_of(study: StudyFile) -> list[Effect]:
    """Effects by the design's definition; prints which arms have no part in them."""
    specs = {run.arm: run.spec for run in study.runs}
    arms = arms_with_equal_settings({arm: specs[arm] for arm in study.arm_names if arm != study.control})
    others = [arm for arm in study.arm_names if arm not in (*arms, study.control)]
    if others:
        print(f"component_effects: without {', '.join(others)}, whose settings differ in more than weights")
    weights = {arm.name: arm.weights for arm in study.arms if arm.name in arms}
    allowed = effects(weights, study.components, study.design, study.control)
    if not allowed:
        print(f"component_effects: none; the arms do not allow the effects of the design {study.design}")
    elif not seeds_of(study, allowed):
        print("component_effects: none; the arms have no seed in common")
        return []
    return allowed


def seeds_of(study: StudyFile, allowed: list[Effect]) -> list[int]:
    """Seeds that every arm with a part in an effect has."""
    arms = {arm for effect in allowed for arm in effect.coefficients}
    trained = {(run.arm, run.seed) for run in study.runs}
    return [seed for seed in study.seeds if all((arm, seed) in trained for arm in arms)]


def effect_rows(
    study: StudyFile, allowed: list[Effect], dataset: str, answers: AnswersReader, means: Mapping[str, SeedMeans]
) -> list[pd.DataFrame]:
    """Rows of component_effects of one data set. Holm's p-values hold for all components of one method together.

    `means` has the seed means of all arms by mode. Only the answers of seeds count that all arms of the effects have.
    """
    tables = []
    for mode, sums in sums_of_arms(allowed, dataset, answers, seeds_of(study, allowed)).items():
        rows = []
        for effect, total in zip(allowed, sums, strict=True):
            variance, flags = moderated_seed_variance(means.get(mode), effect.coefficients, total)
            of_effect = distribution_of(total, dataset, reach(effect), variance)
            columns = tested_columns(of_effect, total, study.confidence, None)
            rows.append(columns | {"method": effect.method, "component": effect.component, "flagged_arms": flags})
        table = without_models_that_fail(rows_of_parts(rows)).assign(dataset=dataset, mode=mode)
        table["p_holm"] = table.groupby(["method", "metric"])["p"].transform(lambda p: holm(p.to_numpy()))
        tables.append(table)
    return tables


def sums_of_arms(
    allowed: list[Effect], dataset: str, answers: AnswersReader, seeds: list[int]
) -> dict[str, list[Answered]]:
    """Answers of all arms times their coefficients, by mode: a sum for each effect."""
    arms = list(dict.fromkeys(arm for effect in allowed for arm in effect.coefficients))
    sums: dict[str, list[Answered]] = {}
    for arm in arms:
        coefficients = np.array([effect.coefficients.get(arm, 0.0) for effect in allowed])
        for mode, of_mode in answers(dataset, arm).items():
            chosen = [of_mode.seeds.index(seed) for seed in seeds]
            values = np.multiply.outer(coefficients, of_mode.values[:, chosen])
            by_seed = np.multiply.outer(coefficients.astype(np.float32), of_mode.by_seed[:, :, chosen])
            if mode not in sums:
                zero = of_mode._replace(seeds=[*seeds], values=values[0] * 0, by_seed=by_seed[0] * 0)
                sums[mode] = [zero for _ in allowed]
            sums[mode] = [
                total._replace(values=total.values + own, by_seed=total.by_seed + own_by_seed)
                for total, own, own_by_seed in zip(sums[mode], values, by_seed, strict=True)
            ]
    return sums


def without_models_that_fail(table: pd.DataFrame) -> pd.DataFrame:
    """Effects without the contrasts of lack of fit; effects of a model that does not fit are null, with a note why."""
    of_fit = table["component"].str.startswith(LACK_OF_FIT)
    lack = table[of_fit].groupby(["method", "metric"])["p"].agg(lambda p: holm(p.to_numpy()).min())
    kept = table[~of_fit].assign(note=None)
    p = kept.join(lack.rename("lack"), on=["method", "metric"])["lack"].to_numpy(dtype=float)
    fails = p < DOUBTFUL_FIT
    kept.loc[fails, ["estimate", "low", "high", "p"]] = np.nan
    kept.loc[fails, "note"] = [f"the model does not fit the arms (lack of fit p = {value:.2g})" for value in p[fails]]
    return kept
