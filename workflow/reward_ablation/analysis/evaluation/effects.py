"""Table component_effects: contrasts of arms, added up while the arms are read one after the other."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import Answered, distribution_of, seed_part, tested_rows
from reward_ablation.analysis.evaluation.seed_means import OfModes
from reward_ablation.analysis.statistics.contrasts import BASE, LACK_OF_FIT, Effect, effects, reach
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.study.weight_surface import DESIGNS, alike

#: A regression is given up where the p-value of its lack of fit is below: with few seeds the test sees little.
DOUBTFUL_FIT = 0.2

#: Sums of each effect by data set and mode.
Sums = dict[tuple[str, str], list[Answered]]


def effects_of(study: StudyFile) -> list[Effect]:
    """Effects that the study's arms allow; says which arms have no part in them."""
    specs = {run.arm: run.spec for run in study.runs}
    arms = alike({arm: specs[arm] for arm in study.arm_names if arm != study.control})
    others = [arm for arm in study.arm_names if arm not in (*arms, study.control)]
    if others:
        print(f"component_effects: without {', '.join(others)}, whose settings differ in more than weights")
    weights = {arm.name: arm.weights for arm in study.arms if arm.name in arms}
    found = effects(weights, study.components, study.design in DESIGNS, study.control)
    if not found:
        print("component_effects: none; no two arms differ in one component alone, and weights cannot be regressed on")
    elif not seeds_of(study, found):
        print("component_effects: none; the arms have no seed in common")
        return []
    return found


def seeds_of(study: StudyFile, found: list[Effect]) -> list[int]:
    """Seeds that every arm with a part in an effect has."""
    arms = {arm for effect in found for arm in effect.coefficients if arm != BASE}
    trained = {(run.arm, run.seed) for run in study.runs}
    return [seed for seed in study.seeds if all((arm, seed) in trained for arm in arms)]


def add(
    sums: Sums, found: list[Effect], arm: str, dataset: str, of_modes: dict[str, Answered], seeds: list[int]
) -> None:
    """Add an arm's part to every effect. The base model, which has no seed, has the same part in each."""
    if not any(arm in effect.coefficients for effect in found):
        return
    for mode, answers in of_modes.items():
        places = [0 if arm == BASE else answers.seeds.index(seed) for seed in seeds]
        values, by_seed = answers.values[:, places], answers.by_seed[:, :, places]
        if (dataset, mode) not in sums:
            sums[dataset, mode] = [
                Answered(answers.metrics, list(seeds), np.zeros_like(values), np.zeros_like(by_seed), answers.limits)
                for _ in found
            ]
        for effect, total in zip(found, sums[dataset, mode], strict=True):
            coefficient = effect.coefficients.get(arm, 0.0)
            if coefficient:
                total.values[:] += coefficient * values
                total.by_seed[:] += np.float32(coefficient) * by_seed


def effect_tables(sums: Sums, found: list[Effect], study: StudyFile, means: dict[str, OfModes]) -> list[pd.DataFrame]:
    """Rows of component_effects. Holm's p-values hold for all components of one method together.

    `means` has the seed means of all arms by data set and mode.
    """
    tables = []
    for (dataset, mode), totals in sums.items():
        rows = []
        for effect, total in zip(found, totals, strict=True):
            trained = {arm: share for arm, share in effect.coefficients.items() if arm != BASE}
            variance, flags = seed_part(means[dataset].get(mode), trained, total)
            of_effect = distribution_of(total, dataset, reach(effect), variance)
            tested = tested_rows(of_effect, total, study.confidence, None)
            rows.append(tested.assign(method=effect.method, component=effect.component, flagged_arms=flags))
        table = without_models_that_fail(pd.concat(rows, ignore_index=True)).assign(dataset=dataset, mode=mode)
        table["p_holm"] = table.groupby(["method", "metric"])["p"].transform(lambda p: holm(p.to_numpy()))
        tables.append(table)
    return tables


def without_models_that_fail(table: pd.DataFrame) -> pd.DataFrame:
    """Effects without the contrasts of lack of fit; effects of a model that does not fit are empty and say why."""
    missed = table["component"].str.startswith(LACK_OF_FIT)
    lack = table[missed].groupby(["method", "metric"])["p"].agg(lambda p: holm(p.to_numpy()).min())
    kept = table[~missed].assign(note=None)
    p = kept.join(lack.rename("lack"), on=["method", "metric"])["lack"].to_numpy(dtype=float)
    fails = p < DOUBTFUL_FIT
    kept.loc[fails, ["estimate", "low", "high", "p"]] = np.nan
    kept.loc[fails, "note"] = [f"the model does not fit the arms (lack of fit p = {value:.2g})" for value in p[fails]]
    return kept
