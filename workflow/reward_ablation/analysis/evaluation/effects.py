"""Table component_effects: contrasts of arms, added up while the arms are read one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import (
    Answered,
    distribution_of,
    rows_of_parts,
    seed_part,
    tested_columns,
)
from reward_ablation.analysis.evaluation.seed_means import SeedMeansByMode
from reward_ablation.analysis.statistics.contrasts import LACK_OF_FIT, Effect, effects, reach
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.spec.canonical import dump
from reward_ablation.spec.run import ArmSpec

#: A regression is dropped where its lack of fit has a p-value below this; with few seeds the test has little power.
DOUBTFUL_FIT = 0.2

#: Arms, and contrasts of lack of fit, that one product of matrices adds up.
ARMS_AT_ONCE = 64


def arms_with_equal_settings(specs: Mapping[str, ArmSpec]) -> list[str]:
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


class EffectSums:
    """Sums of the arms' answers times coefficients, one for each effect, added up while the arms are read.

    There can be as many contrasts of lack of fit as arms; products of matrices add them for many arms at once. Only the
    answers of `seeds` count, which all arms with a part in an effect have.
    """

    def __init__(self, effects: list[Effect], seeds: list[int]):
        self.effects, self.seeds = effects, seeds
        self.arms = {arm for effect in effects for arm in effect.coefficients}
        self.by_mode: dict[tuple[str, str], list[Answered]] = {}
        self.waiting: dict[tuple[str, str], list[tuple[str, np.ndarray, np.ndarray]]] = {}
        self.lack_of_fit = [n for n, effect in enumerate(effects) if effect.component.startswith(LACK_OF_FIT)]

    def add(self, arm: str, dataset: str, of_modes: dict[str, Answered]) -> None:
        """Add an arm's answers to every effect that it has a part in."""
        if arm not in self.arms:
            return
        for mode, answers in of_modes.items():
            places = [answers.seeds.index(seed) for seed in self.seeds]
            values, by_seed = answers.values[:, places], answers.by_seed[:, :, places]
            if (dataset, mode) not in self.by_mode:
                self.by_mode[dataset, mode] = [
                    answers._replace(seeds=[*self.seeds], values=np.zeros_like(values), by_seed=np.zeros_like(by_seed))
                    for _ in self.effects
                ]
            for effect, total in zip(self.effects, self.by_mode[dataset, mode], strict=True):
                coefficient = effect.coefficients.get(arm, 0.0)
                if coefficient and not effect.component.startswith(LACK_OF_FIT):
                    total.values[:] += coefficient * values
                    total.by_seed[:] += np.float32(coefficient) * by_seed
            if self.lack_of_fit:
                waiting = self.waiting.setdefault((dataset, mode), [])
                waiting.append((arm, values, by_seed))
                if len(waiting) == ARMS_AT_ONCE:
                    self._add_waiting((dataset, mode))

    def _add_waiting(self, key: tuple[str, str]) -> None:
        waiting = self.waiting.pop(key, [])
        if not waiting:
            return
        shares = np.array(
            [[self.effects[n].coefficients.get(arm, 0.0) for arm, _, _ in waiting] for n in self.lack_of_fit]
        )
        values = np.array([of_arm.ravel() for _, of_arm, _ in waiting])
        by_seed = np.array([of_arm.ravel() for _, _, of_arm in waiting])
        for first in range(0, len(self.lack_of_fit), ARMS_AT_ONCE):  # fewer at once take less memory
            some = slice(first, first + ARMS_AT_ONCE)
            totals = [self.by_mode[key][n] for n in self.lack_of_fit[some]]
            for parts, sums in ((values, [of.values for of in totals]), (by_seed, [of.by_seed for of in totals])):
                for total, product in zip(sums, shares[some].astype(parts.dtype) @ parts, strict=True):
                    total += product.reshape(total.shape)

    def totals(self) -> dict[tuple[str, str], list[Answered]]:
        """The sum of each effect, by data set and mode."""
        for key in self.by_mode:
            self._add_waiting(key)
        return self.by_mode


def effect_tables(sums: EffectSums, study: StudyFile, means: dict[str, SeedMeansByMode]) -> list[pd.DataFrame]:
    """Rows of component_effects. Holm's p-values hold for all components of one method together.

    `means` has the seed means of all arms by data set and mode.
    """
    tables = []
    for (dataset, mode), totals in sums.totals().items():
        rows = []
        for effect, total in zip(sums.effects, totals, strict=True):
            variance, flags = seed_part(means[dataset].get(mode), effect.coefficients, total)
            of_effect = distribution_of(total, dataset, reach(effect), variance)
            columns = tested_columns(of_effect, total, study.confidence, None)
            rows.append(columns | {"method": effect.method, "component": effect.component, "flagged_arms": flags})
        table = without_models_that_fail(rows_of_parts(rows)).assign(dataset=dataset, mode=mode)
        table["p_holm"] = table.groupby(["method", "metric"])["p"].transform(lambda p: holm(p.to_numpy()))
        tables.append(table)
    return tables


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
