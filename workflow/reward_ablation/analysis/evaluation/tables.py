"""Tables of evaluated models, from the answers of all runs of a study."""

from __future__ import annotations

import copy
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.evaluation.across_datasets import across_rows
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
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, all_joined, columns
from reward_ablation.study.provenance import Quantities, quantities
from reward_ablation.system.digests import read_object
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

SCHEMAS = {
    "evaluation_by_run": columns(
        (TEXT, "arm"), (COUNT, "seed"), (TEXT, "dataset mode metric"), (NUMBER, "value"), (COUNT, "questions answers")
    ),
    "evaluation_by_arm": columns((TEXT, "arm dataset mode metric"), *ESTIMATE),
    "paired_differences": columns(
        (TEXT, "arm baseline dataset mode metric"),
        *ESTIMATE,
        (NUMBER, "p p_holm smallest_effect"),
        (TEXT, "provenance"),
    ),
    # method: main_effect, interaction, shapley, leave_one_out, one_at_a_time or regression; component: "a:b" for an
    # interaction of two components.
    "component_effects": columns(
        (TEXT, "dataset mode metric method component"), *ESTIMATE, (NUMBER, "p p_holm smallest_effect")
    ),
    # statistic: iqm (without a baseline) or probability_of_improvement.
    "across_datasets": columns(
        (TEXT, "arm baseline mode metric statistic"), (NUMBER, "estimate low high"), (COUNT, "seeds datasets")
    ),
    "learning_curves": columns((TEXT, "arm"), (COUNT, "step"), (TEXT, "dataset mode metric"), *ESTIMATE),
    # source: training (without a data set) or evaluation.
    "problem_curves": columns(
        (TEXT, "problem_id question arm"), (COUNT, "step"), (TEXT, "source dataset"), *ESTIMATE, (COUNT, "answers")
    ),
    # model: base (without a seed) or final; chosen: first, gained or lost.
    "examples": columns(
        (TEXT, "dataset mode problem_id question gold arm"),
        (COUNT, "seed"),
        (TEXT, "model completion answer"),
        (FLAG, "correct_strict correct_lenient format"),
        (COUNT, "tokens"),
        (FLAG, "truncated"),
        (TEXT, "chosen"),
    ),
}

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


def check_problems(study: StudyFile, root: Path) -> None:
    """Refuse answers to another version of the problems than the prepared one.

    New code may have prepared other problems in this very start, which plans its evaluations before. Records of earlier
    versions do not name the problems.
    """
    for dataset in study.datasets:
        problems = root / study.questions[dataset]
        digest = sha256(problems) if problems.is_file() else None
        for model in (BASE, *(run.name for run in study.runs)):
            answers = root / study.answers_file(dataset, model)
            record = answers.with_suffix(".json")
            made_of = read_object(record, "delete it and run the workflow again") if record.is_file() else {}
            if digest is not None and made_of.get("inputs", {}).get("problems", digest) != digest:
                raise StudyError(f"{answers}: answers to another version of the problems; run the same command again")


def evaluation_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """All tables of evaluated models, by name; the runs' records and rollouts are checked first."""
    check_problems(study, root)
    records = read_runs(study, root, ["rollouts.parquet"])
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    steps = {folder: record.steps for folder, record in records.items()}
    training_set = next(iter(records.values())).inputs.get("problems")
    final = final_model_tables(study, root, values)
    others = {
        "learning_curves": learning_curves(study, root, steps),
        "problem_curves": problem_curves(study, root, steps, training_set),
        "examples": examples(study, root),
    }
    return final | all_joined(SCHEMAS, others)


def final_model_tables(study: StudyFile, root: Path, values: dict[str, Quantities]) -> dict[str, pd.DataFrame]:
    """Tables of the final models: by run and by arm, differences, effects of components, and over all data sets.

    Arms are read one after the other, and only an arm's part in the effects of components is kept. `values` has the
    provenance of each run, by folder.
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
                files = {run.seed: study.answers_file(dataset, run.name) for run in study.runs_of(arm)}
                means = {seed: read_question_means(root / file, base[dataset]) for seed, file in files.items()}
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
    parts = {
        "evaluation_by_run": in_order(by_run, study),
        "evaluation_by_arm": in_order(by_arm, study),
        "paired_differences": in_order(differences, study),
        "component_effects": effect_tables(sums, effects, study.confidence),
        "across_datasets": across,
    }
    return all_joined(SCHEMAS, parts)


def in_order(parts: dict[str, list[pd.DataFrame]], study: StudyFile) -> list[pd.DataFrame]:
    """Rows of each data set by arm, in the study's order, the base model first.

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
    return tables


def difference_in_provenance(arm: list[StudyRun], baseline: list[StudyRun], values: dict[str, Quantities]) -> str:
    """`same`, or `differs in ...`: quantities in which an arm's and the baseline's runs of one seed differ."""
    of_seed = {run.seed: values[run.folder] for run in baseline}
    pairs = [(values[run.folder], of_seed[run.seed]) for run in arm if run.seed in of_seed]
    names = dict.fromkeys(name for one, other in pairs for name in [*one, *other])
    differing = [
        name for name in names if any(set(one.get(name, [])) != set(other.get(name, [])) for one, other in pairs)
    ]
    return f"differs in {', '.join(differing)}" if differing else "same"
