"""Tables from stored Gram matrices of single completions: split halves, alignments, harm, maps over weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.harm import effect_of_step, harm_by_arm, harm_by_step
from reward_ablation.analysis.gradients.measured_steps import alignments, effects_on_other_prompts, read_products
from reward_ablation.analysis.gradients.split_halves import cosines_of_step, cosines_of_steps, halves_by_prompt
from reward_ablation.analysis.gradients.what_if import MeasuredRun
from reward_ablation.analysis.gradients.what_if_check import agreement_table, check_table, score_covariances
from reward_ablation.analysis.gradients.what_if_map import (
    map_table,
    point_table,
    signs_of_weights,
    weight_grid,
)
from reward_ablation.analysis.statistics.known import mean_of_known
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import signal_rows

#: Most measured steps that are read of one run, and of all runs; they are spread evenly over the run.
MOST_OF_RUN, MOST_OF_ALL = 40, 2000

#: Most steps of one run, and of all runs, that stand for the policy before training, and the share of training that
#: they may come from.
EARLY_OF_RUN, EARLY_OF_ALL, EARLY_SHARE = 10, 400, 0.1

#: Effects by (seed, step).
Effects = dict[tuple[int, int], np.ndarray]


def spread(steps: list[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly spread, with the first and the last."""
    if len(steps) <= most:
        return steps
    return [steps[place] for place in np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))]


def early(steps: list[int], last: int, runs: int) -> list[int]:
    """The first measured steps, from a tenth of training, at least one: they stand for the policy before training."""
    most = min(EARLY_OF_RUN, max(1, EARLY_OF_ALL // runs))
    return [step for step in steps if step <= max(steps[0], EARLY_SHARE * last)][:most] if steps else []


def alignment_rows(run: StudyRun, aligned: dict[int, tuple[np.ndarray, np.ndarray]], names: list[str]) -> pd.DataFrame:
    """Cosines and effects of the steps that a run took, as rows of `alignment_by_step`."""
    labels = [["gradient_cosine", "gradient_effect"], names]
    columns = pd.MultiIndex.from_product(labels, names=["quantity", "component"])
    table = pd.DataFrame([np.concatenate(aligned[step]) for step in aligned], index=pd.Index(aligned, name="step"))
    return signal_rows(table.set_axis(columns, axis="columns")).assign(arm=run.arm, seed=run.seed)


def halves_rows(
    run: StudyRun, halves: dict[int, np.ndarray], layers: list[str], names: list[str], confidence: float
) -> pd.DataFrame:
    """Rows of `split_halves`: each step over all layers, then all steps together (step null) by layer."""
    parts = [cosines_of_step(by_prompt, names, confidence).assign(step=step) for step, by_prompt in halves.items()]
    prompts = sum(by_prompt.shape[1] for by_prompt in halves.values())
    together = cosines_of_steps(
        [by_prompt.sum(axis=1) for by_prompt in halves.values()], prompts, layers, names, confidence
    )
    table = pd.concat([*parts, together.assign(step=None)])
    return table.assign(arm=run.arm, seed=run.seed).astype({"step": "Int64"})


def on_all_components(values: np.ndarray, scored: list[str], study: StudyFile) -> np.ndarray:
    """(arms, components) array of values under each arm's weights at a step of one run, on all components of the study.

    `values` has only the components that score the run; the other components are NaN. An arm that is trained on one of
    these others is NaN, since the run does not say what its weights do, and so is an arm with a method of combination,
    which has no fixed weights.
    """
    on_all = np.full((len(study.arms), len(study.components)), np.nan)
    on_all[:, [study.components.index(name) for name in scored]] = values
    others = [any(weight for name, weight in arm.weights.items() if name not in scored) for arm in study.arms]
    on_all[[not arm.has_fixed_weights or other for arm, other in zip(study.arms, others, strict=True)]] = np.nan
    return on_all


@dataclass
class Gathered:
    """Results that are gathered while the measured steps of all runs are read.

    Parameters
    ----------
    alignment, halves, harm : list of DataFrame
        Rows of tables, by run.
    base : dict
        Effects at the points of the map, at the early steps of the baseline.
    effects, covariances : dict of dict
        Effects of all arms' weights, and the covariances of scores under them, at the early steps of each arm's runs;
        arrays as `on_all_components` returns them.
    refused : Counter
        Steps that were left out, by reason.
    """

    alignment: list[pd.DataFrame] = field(default_factory=list)
    halves: list[pd.DataFrame] = field(default_factory=list)
    harm: list[pd.DataFrame] = field(default_factory=list)
    base: Effects = field(default_factory=dict)
    effects: dict[str, Effects] = field(default_factory=dict)
    covariances: dict[str, Effects] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)


def gather(study: StudyFile, root: Path, measured: dict[str, list[int]], last: int, grid: np.ndarray) -> Gathered:
    """Read the measured steps of all runs.

    `last` is the last step of training. `grid` has the map's points over the components that score the baseline's runs.
    """
    gathered = Gathered()
    most = min(MOST_OF_RUN, max(2, MOST_OF_ALL // max(1, len(measured))))
    every_weight = np.array([[arm.weights[name] for name in study.components] for arm in study.arms])
    for run in study.runs:
        names = study.scored_in(run)
        arm_weights = every_weight[:, [study.components.index(name) for name in names]]
        evenly, first = spread(measured[run.folder], most), early(measured[run.folder], last, len(measured))
        aligned, harm, split, layers = {}, {}, {}, []
        stored = MeasuredRun(root / run.folder, {*evenly, *first})
        for step in sorted({*evenly, *first}):
            products = read_products(stored, step, names)
            if isinstance(products, str):
                gathered.refused[products.partition(": ")[2].replace(f"step {step}", "a step")] += 1
                continue
            if step in evenly:
                aligned[step], harm[step] = alignments(products), effect_of_step(products)
                split[step] = halves_by_prompt(products)
                layers = products.measured.blocks[0].layers
            if step in first:
                key, shares = (run.seed, step), products.measured.shares(arm_weights)
                effects = effects_on_other_prompts(products, shares)
                covariances = score_covariances(products.measured, arm_weights)
                gathered.effects.setdefault(run.arm, {})[key] = on_all_components(effects, names, study)
                gathered.covariances.setdefault(run.arm, {})[key] = on_all_components(covariances, names, study)
                if run.arm == study.baseline:
                    gathered.base[key] = effects_on_other_prompts(products, products.measured.shares(grid))
        if aligned:
            gathered.alignment.append(alignment_rows(run, aligned, names))
            gathered.halves.append(halves_rows(run, split, layers, names, study.confidence))
            gathered.harm.append(harm_by_step(harm, names).assign(arm=run.arm, seed=run.seed))
    return gathered


def measured_tables(
    study: StudyFile, root: Path, measured: dict[str, list[int]], rewards_by_step: pd.DataFrame
) -> dict[str, list[pd.DataFrame]]:
    """Parts of the tables that stored Gram matrices give.

    `measured` has the measured steps by the run's folder. At most `MOST_OF_RUN` steps of a run and `MOST_OF_ALL` of a
    study are read, and a few early steps. A step is left out if its Gram matrices are absent or do not say what other
    weights would have done; the log says how many steps and why.
    """
    confidence = study.confidence
    last = int(rewards_by_step["step"].max()) if len(rewards_by_step) else 0
    mapped = study.scored_by_arm[study.baseline]
    grid = weight_grid(len(mapped)) * signs_of_weights(study.arms, mapped)
    results = gather(study, root, measured, last, grid)
    for reason, steps in results.refused.items():
        print(f"{steps} measured steps left out of what_if, split_halves and harm: {reason}")
    predictions, covariances = (predictions_by_arm(study, by_arm) for by_arm in (results.effects, results.covariances))
    if study.arms_with_methods:
        print(
            f"what_if_check: no prediction for {', '.join(study.arms_with_methods)}: a method combines the components"
        )
    weights = {arm.name: arm.weights for arm in study.arms}
    weights |= {run.arm: rewarded_weights(run) for run in study.runs if run.spec.combine}
    check = check_table(predictions, covariances, weights, rewards_by_step, study.components, confidence)
    harm = pd.concat(results.harm) if results.harm else pd.DataFrame({"arm": []})
    return {
        "alignment_by_step": results.alignment,
        "split_halves": results.halves,
        "harm_by_step": results.harm,
        "harm_by_arm": [
            harm_by_arm(harm[harm["arm"] == arm], arm, study.components, confidence) for arm in harm["arm"].unique()
        ],
        "what_if": [map_table(results.base, study.baseline, mapped, confidence)] if results.base else [],
        "what_if_points": [point_table(grid, mapped)] if results.base else [],
        "what_if_check": [check],
        "what_if_agreement": [agreement_table(check, confidence)] if len(check) else [],
    }


def rewarded_weights(run: StudyRun) -> dict[str, float]:
    """Weights of a run with a method; NaN for a component of weight 0 that the method's parameters name."""
    return {
        name: np.nan if name in run.spec.taking_part and not weight else float(weight)
        for name, weight in run.spec.weights.items()
    }


def predictions_by_arm(study: StudyFile, by_arm: dict[str, Effects]) -> dict[str, Effects]:
    """For each arm, (K,) values under its weights by (seed, step), averaged over the other arms' runs.

    The arm's own steps are left out, because the arm was trained on their completions. Steps of other arms count even
    where they have the same completions, as the first step of a seed does.
    """
    predictions: dict[str, Effects] = {}
    for row, arm in enumerate(study.arm_names):
        gathered: dict[tuple[int, int], list[np.ndarray]] = {}
        for other, effects in by_arm.items():
            for key, values in effects.items():
                if other != arm:
                    gathered.setdefault(key, []).append(values[row])
        if gathered:
            predictions[arm] = {key: mean_of_known(np.array(values), 0)[0] for key, values in gathered.items()}
    return predictions
