"""Table component_effects: what a component does, as linear contrasts of arms.

`tables`, which the rule `tables_evaluation` runs, calls `effects_of` once for the study and `effect_rows` for each data
set. The summary and the figures ask `lack_a_common_seed` why there are no effects.

Each effect is a sum of arms' results times coefficients, which follow from the arms' weights. So questions, and the
seeds that all arms of the effects have, are paired in it, and one bootstrap serves every effect. The study's design
defines what an effect is (`METHODS`). The base model is in no effect: it was not trained, so whatever training does to
any arm would count as the component's effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from reward_ablation.analysis.evaluation.answers import (
    Answered,
    AnswersReader,
    distribution_of,
    moderated_seed_variance,
    rows_of_parts,
    tested_columns,
)
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.spec.canonical import dump
from reward_ablation.spec.run import ArmSpec, ImportedSpec

#: A regression is dropped where its lack of fit has a p-value below this. The level is that high because few seeds
#: detect little.
DOUBTFUL_FIT = 0.2

#: Prefix of the names of contrasts that are 0 where a regression's model holds; no component's name has a blank.
LACK_OF_FIT = "lack of fit "

#: Most contrasts of lack of fit of a model, a free choice. Further ones are not tested.
MOST_CONTRASTS = 100

#: The definition of an effect by design, as the table names it (column `method`). There a regression with products of
#: shares is `quadratic_regression`. The design `list` has the first definition of `OF_LISTS` that its arms allow.
METHODS = {
    "leave_one_out": "leave_one_out",
    "one_at_a_time": "over_control",
    "factorial": "main_effect",
    "simplex": "regression",
}
OF_LISTS = ("leave_one_out", "one_at_a_time", "simplex")

#: Why there is no effect where the arms would allow them.
NO_COMMON_SEED = "the arms have no seed in common"

#: Weights by arm and component.
Weights = dict[str, dict[str, float]]


class Effect(NamedTuple):
    """An effect of a component: coefficients by arm."""

    method: str
    component: str
    coefficients: dict[str, float]


def effects(arms: Weights, components: list[str], design: str, control: str | None = None) -> list[Effect]:
    """The effects by the design's definition; empty where the arms, which differ in their weights alone, allow none."""
    # `control`, not among the arms, was trained without information. All but `over_control` need two components.
    used = [name for name in components if any(weights.get(name, 0.0) for weights in arms.values())]
    # Arms of equal weights share their runs here, so the first stands for all.
    first = {tuple(weights[name] for name in used): arm for arm, weights in reversed(arms.items())}.values()
    arms = {arm: weights for arm, weights in arms.items() if arm in first}
    of_methods = {
        "leave_one_out": lambda: leave_one_out(arms, used),
        "over_control": lambda: over_control(arms, used, control),
        "main_effect": lambda: main_effects(arms, used, control),
        "regression": lambda: regression(arms, used),
    }
    designs = [design] if design in METHODS else OF_LISTS
    return next((found for each in designs if (found := of_methods[METHODS[each]]())), [])


def main_effects(arms: Weights, used: list[str], control: str | None) -> list[Effect]:
    """Mean difference that a component makes beside each set of others, at two levels; empty with a set missing."""
    # The empty set is the control arm, or does not count.
    if any(len({weights[name] for weights in arms.values() if weights[name]}) > 1 for name in used):
        return []
    subsets = {frozenset(name for name in used if weights[name]): arm for arm, weights in arms.items()}
    if len(used) < 2 or len(subsets) < 2 ** len(used) - 1:
        return []
    subsets |= {frozenset(): control} if control is not None else {}
    found = []
    for name in used:
        beside = [subset for subset in subsets if name not in subset]
        coefficients = {subsets[subset | {name}]: 1 / len(beside) for subset in beside}
        found.append(
            Effect("main_effect", name, coefficients | {subsets[subset]: -1 / len(beside) for subset in beside})
        )
    return found


def leave_one_out(arms: Weights, used: list[str]) -> list[Effect]:
    """The arm with all components minus the arm without this component, whose other weights are the same."""
    found = []
    for full, weights in arms.items():
        if len(used) < 2 or not all(weights[name] for name in used):
            continue
        for name in used:
            without = [arm for arm, others in arms.items() if others == weights | {name: 0.0}]
            found += [Effect("leave_one_out", name, {full: 1.0, arm: -1.0}) for arm in without]
    return _unambiguous(found)


def over_control(arms: Weights, used: list[str], control: str | None) -> list[Effect]:
    """The arm with this component alone minus the control arm; none without a control arm."""
    if control is None:
        return []
    found = []
    for name in used:
        alone = [
            arm for arm, weights in arms.items() if weights[name] and not any(weights[o] for o in used if o != name)
        ]
        found += [Effect("over_control", name, {arm: 1.0, control: -1.0}) for arm in alone]
    return _unambiguous(found)


def _unambiguous(found: list[Effect]) -> list[Effect]:
    """Drop components with several effects, as of two weights: it is unclear which effect is meant."""
    names = [effect.component for effect in found]
    return [effect for effect in found if names.count(effect.component) == 1]


def regression(arms: Weights, used: list[str]) -> list[Effect]:
    """Effects by least squares on shares of weights; none where arms are too few or alike, or a weight is negative.

    A weight counts by its share: a common factor drops out of scaled advantages, and nearly out of Adam's steps. Shares
    are a mixture, and the models are Scheffé's ("Experiments with mixtures", JRSS B 1958): quadratic where there are
    arms enough, more than coefficients. An effect is the result of a component alone minus that of the others in equal
    parts, along Cox's direction through the centre (Cornell, "Experiments with Mixtures", 2002, chapter 5).

    Contrasts of lack of fit (`LACK_OF_FIT`) are 0 where the model holds. They are orthogonal and chosen without a look
    at the results, so a test of the first `MOST_CONTRASTS` is as valid as of all.
    """
    table = np.array([[weights[name] for name in used] for weights in arms.values()])
    if len(used) < 2 or (table < 0).any():
        return []
    shares = table / table.sum(axis=1, keepdims=True)
    alone = np.eye(len(used))
    others = (1 - alone) / (len(used) - 1)
    for method, terms in (("quadratic_regression", with_products), ("regression", np.asarray)):
        matrix = terms(shares)
        if len(matrix) <= matrix.shape[1] or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            continue
        slopes = (terms(alone) - terms(others)) @ np.linalg.pinv(matrix)
        lack_of_fit = null_space(matrix.T).T[:MOST_CONTRASTS]
        rows = [*zip(used, slopes, strict=True)]
        rows += [(f"{LACK_OF_FIT}{number}", row) for number, row in enumerate(lack_of_fit)]
        # What is left of rounding would make an arm without a part in the effect count as one that has a part.
        rows = [(name, np.where(np.abs(row) < 1e-12, 0.0, row)) for name, row in rows]
        return [Effect(method, name, dict(zip(arms, map(float, row), strict=True))) for name, row in rows]
    return []


def with_products(shares: np.ndarray) -> np.ndarray:
    """Terms of Scheffé's quadratic model: the shares, and the products of two of them."""
    pairs = [shares[:, first] * shares[:, second] for first, second in combinations(range(shares.shape[1]), 2)]
    return np.column_stack([shares, *pairs])


def reach(effect: Effect) -> tuple[float, float]:
    """Lowest and highest value of the effect on a metric that is a share."""
    coefficients = effect.coefficients.values()
    return sum((c for c in coefficients if c < 0), 0.0), sum((c for c in coefficients if c > 0), 0.0)


def arms_with_equal_settings(specs: Mapping[str, ArmSpec | ImportedSpec]) -> list[str]:
    """The largest group of arms whose specs differ only in weights, and in components that have no part in an arm."""
    # A component's definition is compared among the arms that are trained on it; that of most is the usual one.
    written = {arm: spec.content()["components"] for arm, spec in specs.items()}
    defined = {arm: [(name, dump(written[arm].get(name))) for name in spec.taking_part] for arm, spec in specs.items()}
    counts = Counter(definition for of_arm in defined.values() for definition in of_arm)
    usual = dict(definition for definition, _ in reversed(counts.most_common()))
    unusual = {arm: dict(part for part in of_arm if part not in usual.items()) for arm, of_arm in defined.items()}
    settings = {arm: settings_of(spec) + dump(unusual[arm]) for arm, spec in specs.items()}
    [(most, _)] = Counter(settings.values()).most_common(1) or [("", 0)]
    return [arm for arm in specs if settings[arm] == most]


def settings_of(spec: ArmSpec | ImportedSpec) -> str:
    """A spec's settings apart from its weights and components, as text."""
    return dump(spec.model_copy(update={"weights": {}, "components": {}}).content())


def effects_of(study: StudyFile) -> list[Effect]:
    """Effects by the design's definition; prints which arms have no part in them, and why there is none."""
    allowed, left_out = effects_of_design(study)
    for words in left_out:
        print(f"component_effects: without {words}")
    if not allowed:
        print(f"component_effects: none; the arms do not allow the effects of the design {study.design}")
    elif not seeds_of(study, allowed):
        print(f"component_effects: none; {NO_COMMON_SEED}")
        return []
    return allowed


def lack_a_common_seed(study: StudyFile) -> bool:
    """Whether the study has no effects only because their arms have no seed in common."""
    allowed, _ = effects_of_design(study)
    return bool(allowed) and not seeds_of(study, allowed)


def effects_of_design(study: StudyFile) -> tuple[list[Effect], list[str]]:
    """Effects by the design's definition, whatever seeds the arms have; in words, which arms are left out and why."""
    for design in [study.design] if study.design in METHODS else OF_LISTS:
        allowed, left_out = effects_by_definition(study, design)
        if allowed:
            break
    return allowed, left_out


def effects_by_definition(study: StudyFile, design: str) -> tuple[list[Effect], list[str]]:
    """Effects by the definition of one of `METHODS`; in words, which arms are left out and why."""
    specs, control = {run.arm: run.spec for run in study.runs}, study.control
    # Where a method combines, an arm's weights are not the mixture that it is trained on.
    combined = study.arms_with_methods if METHODS[design] == "regression" else []
    beside = [arm for arm in arms_beside(study, design) if arm not in (control, *combined)]
    apart = (*combined, *beside)
    arms = arms_with_equal_settings({arm: specs[arm] for arm in study.arm_names if arm not in (control, *apart)})
    if control in specs and arms and settings_of(specs[control]) != settings_of(specs[arms[0]]):
        control = None
    differing = [arm for arm in study.arm_names if arm not in (*arms, *apart, control)]
    weights = {arm.name: arm.weights for arm in study.arms if arm.name in arms}
    zero, same = [arm for arm, own in weights.items() if not any(own.values())], study.same_runs
    kept = {arm: own for arm, own in weights.items() if arm not in zero}
    doubtful = [arm for arm in kept if any(kept[arm] == kept[each] and same[arm] != same[each] for each in kept)]
    kept = {arm: own for arm, own in kept.items() if arm not in doubtful}
    reasons = {
        "whose settings differ in more than weights": differing,
        "whose components TRL does not combine": combined,
        f"which the design {design} does not make": beside,
        "whose weights are all 0": zero,
        "which have equal weights and runs of their own, so that it is unclear which to take": doubtful,
    }
    left_out = [f"{', '.join(names)}, {reason}" for reason, names in reasons.items() if names]
    return effects(kept, study.components, design, control), left_out


def arms_beside(study: StudyFile, design: str) -> list[str]:
    """Arms of `arms.extra` that have no part in effects; a regression takes those of the design's own components."""
    extra = [arm for arm in study.arms if arm.extra]
    if METHODS[design] != "regression":
        return [arm.name for arm in extra]
    own = {name for arm in study.arms if not arm.extra for name, weight in arm.weights.items() if weight}
    return [arm.name for arm in extra if any(weight and name not in own for name, weight in arm.weights.items())]


def seeds_of(study: StudyFile, allowed: list[Effect]) -> list[int]:
    """Seeds that every arm with a part in an effect has."""
    arms = {arm for effect in allowed for arm in effect.coefficients}
    trained = {(run.arm, run.seed) for run in study.runs}
    return [seed for seed in study.seeds if all((arm, seed) in trained for arm in arms)]


def effect_rows(
    study: StudyFile, allowed: list[Effect], dataset: str, answers: AnswersReader, means: Mapping[str, SeedMeans]
) -> list[pd.DataFrame]:
    """Rows of one data set, Holm's p over components; effects borrow variance from `means`, of all arms by mode."""
    tables = []
    for mode, sums in sums_of_arms(allowed, dataset, answers, seeds_of(study, allowed)).items():
        rows = []
        for effect, total in zip(allowed, sums, strict=True):
            variance, flags = moderated_seed_variance(means.get(mode), effect.coefficients, total)
            of_effect = distribution_of(total, dataset, reach(effect), variance)
            columns = tested_columns(of_effect, total, study.confidence, None)  # without an equivalence margin
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
            of_mode = of_mode.of_seeds(seeds)
            values = np.multiply.outer(coefficients, of_mode.values)
            # `by_seed`, means over resampled questions, is in float32 and stays so.
            by_seed = np.multiply.outer(coefficients.astype(np.float32), of_mode.by_seed)
            sizes = np.abs(values.mean(axis=(2, 3)))
            if mode not in sums:
                zero = of_mode._replace(values=values[0] * 0, by_seed=by_seed[0] * 0)
                sums[mode] = [zero for _ in allowed]
            sums[mode] = [
                total._replace(
                    values=total.values + own, by_seed=total.by_seed + own_by_seed, scale=np.maximum(total.scale, size)
                )
                for total, own, own_by_seed, size in zip(sums[mode], values, by_seed, sizes, strict=True)
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
