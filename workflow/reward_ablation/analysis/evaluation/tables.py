"""Tables of evaluated models, from the answers of all runs of a study."""

from __future__ import annotations

import copy
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.evaluation.across_datasets import rows_across
from reward_ablation.analysis.evaluation.answers import (
    ANSWER_COLUMNS,
    SAMPLED,
    Answered,
    answered,
    difference_rows,
    evaluation_of_run,
    evaluation_rows,
    question_means,
)
from reward_ablation.analysis.evaluation.effects import Sums, add, effect_tables, effects_of, seeds_of
from reward_ablation.analysis.evaluation.examples import examples
from reward_ablation.analysis.evaluation.learning_curves import learning_curves
from reward_ablation.analysis.evaluation.problem_curves import problem_curves
from reward_ablation.analysis.evaluation.schemas import SCHEMAS
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import joined
from reward_ablation.study.provenance import Quantities, quantities
from reward_ablation.system.errors import StudyError

#: An arm's answers by data set and mode.
Answers = dict[str, dict[str, Answered]]


def read_question_means(path: Path, base: pd.DataFrame | None) -> pd.DataFrame:
    """Question means of one evaluated model, which must have answered the questions of the base model."""
    means = question_means(read_parquet(path, ["mode", "problem_id", *ANSWER_COLUMNS]))
    if base is not None and not means["answers"].equals(base["answers"]):
        raise StudyError(
            f"{path}: answers other questions than the base model did, or not as often; "
            "delete it and run the workflow again"
        )
    samples = means["answers"][means.index.get_level_values("mode") == SAMPLED]
    if samples.nunique() > 1:
        raise StudyError(
            f"{path}: has {samples.min()} sampled answers to some questions and {samples.max()} to others; "
            "delete it and run the workflow again"
        )
    return means


def means_of_arm(
    study: StudyFile, arm: str, dataset: str, root: Path, base: pd.DataFrame
) -> dict[int | None, pd.DataFrame]:
    """Question means of an arm's models, by seed."""
    return {
        run.seed: read_question_means(root / study.answers_file(dataset, run.name), base) for run in study.runs_of(arm)
    }


def evaluation_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """All tables of evaluated models, by name; the runs' records and rollouts are checked first."""
    records = read_runs(study, root, ["rollouts.parquet"])
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    steps = {folder: record.steps for folder, record in records.items()}
    training_set = next(iter(records.values())).inputs.get("problems")
    return {
        **final_model_tables(study, root, values),
        "learning_curves": learning_curves(study, root, steps),
        "problem_curves": problem_curves(study, root, steps, training_set),
        "examples": examples(study, root),
    }


def final_model_tables(study: StudyFile, root: Path, values: dict[str, Quantities]) -> dict[str, pd.DataFrame]:
    """Tables of the final models: evaluation_by_run, evaluation_by_arm, paired_differences and two that build on them.

    Arms are read one after the other, and of each no more is kept than its part in the effects of components.

    Parameters
    ----------
    values : dict
        Provenance of each run, by folder.
    """
    by_run: dict[str, list[pd.DataFrame]] = {dataset: [] for dataset in study.datasets}
    by_arm, differences = copy.deepcopy(by_run), copy.deepcopy(by_run)
    across: list[pd.DataFrame] = []
    effects = effects_of(study)
    sums: Sums = {}
    seeds = seeds_of(study, effects)
    base = {dataset: read_question_means(root / study.answers_file(dataset, BASE), None) for dataset in study.datasets}
    baseline: Answers = {}

    others = [arm for arm in study.arm_names if arm != study.baseline]
    for arm in [BASE, study.baseline, *others]:
        answers: Answers = {}
        for dataset in study.datasets:
            means: dict[int | None, pd.DataFrame] = {None: base[dataset]}
            if arm != BASE:
                means = means_of_arm(study, arm, dataset, root, base[dataset])
            by_run[dataset] += [evaluation_of_run(of_seed, arm, seed, dataset) for seed, of_seed in means.items()]
            answers[dataset] = answered(means, dataset, study.bootstrap)
            by_arm[dataset].append(evaluation_rows(answers[dataset], arm, dataset, study.confidence))
            add(sums, effects, arm, dataset, answers[dataset], seeds)
        if arm == study.baseline:
            baseline = answers
        if arm in others:
            provenance = difference_in_provenance(study.runs_of(arm), study.runs_of(study.baseline), values)
            for dataset in study.datasets:
                rows = difference_rows(answers[dataset], baseline[dataset], dataset, study.confidence)
                differences[dataset].append(rows.assign(arm=arm, baseline=study.baseline, provenance=provenance))
        if arm != BASE:
            across += across_rows(study, arm, answers, baseline)
    return {
        "evaluation_by_run": in_order("evaluation_by_run", by_run, study),
        "evaluation_by_arm": in_order("evaluation_by_arm", by_arm, study),
        "paired_differences": in_order("paired_differences", differences, study),
        "component_effects": joined(SCHEMAS["component_effects"], effect_tables(sums, effects, study.confidence)),
        "across_datasets": joined(SCHEMAS["across_datasets"], across),
    }


def across_rows(study: StudyFile, arm: str, answers: Answers, baseline: Answers) -> list[pd.DataFrame]:
    """Rows of across_datasets of one arm, for each mode that all data sets have."""
    modes = [mode for mode in next(iter(answers.values())) if all(mode in of_modes for of_modes in answers.values())]
    return [
        rows_across(
            arm,
            [of_modes[mode] for of_modes in answers.values()],
            study.baseline,
            [of_modes[mode] for of_modes in baseline.values()],
            mode,
            study.confidence,
        )
        for mode in modes
    ]


def in_order(name: str, parts: dict[str, list[pd.DataFrame]], study: StudyFile) -> pd.DataFrame:
    """All parts as one table: by data set, then by arm in the study's order, the base model first.

    Differences get Holm's p-values, which hold for all arms of a data set, mode and metric together.
    """
    tables = []
    place = {arm: number for number, arm in enumerate([BASE, *study.arm_names])}
    for of_dataset in parts.values():
        if not of_dataset:
            continue
        table = pd.concat(of_dataset, ignore_index=True)
        table = table.iloc[table["arm"].map(place).argsort(kind="stable")]
        if "p" in table:
            table["p_holm"] = table.groupby(["mode", "metric"])["p"].transform(lambda p: holm(p.to_numpy()))
        tables.append(table)
    return joined(SCHEMAS[name], tables)


def difference_in_provenance(arm: list[StudyRun], baseline: list[StudyRun], values: dict[str, Quantities]) -> str:
    """In what the runs that are compared differ: `same`, or `differs in ...`; only runs of one seed are compared."""
    of_seed = {run.seed: values[run.folder] for run in baseline}
    pairs = [(values[run.folder], of_seed[run.seed]) for run in arm if run.seed in of_seed]
    names = dict.fromkeys(name for one, other in pairs for name in [*one, *other])
    differing = [
        name for name in names if any(set(one.get(name, [])) != set(other.get(name, [])) for one, other in pairs)
    ]
    return f"differs in {', '.join(differing)}" if differing else "same"
