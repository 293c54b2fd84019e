"""Tables of evaluated models, from the answers of all runs of a study."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import Answered, answered, difference_rows, evaluation_rows
from reward_ablation.analysis.evaluation.by_level import Reader, differences_by_level
from reward_ablation.analysis.evaluation.decided import with_decisions
from reward_ablation.analysis.evaluation.effects import EffectSums, effect_tables, effects_of, seeds_of
from reward_ablation.analysis.evaluation.examples import examples
from reward_ablation.analysis.evaluation.learning_curves import learning_curves
from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import SAMPLED, QuestionMeans, same_questions
from reward_ablation.analysis.evaluation.seed_means import evaluation_of_runs, over_questions, seed_means
from reward_ablation.analysis.evaluation.stored_answers import means_of_answers, without_score
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.contrasts import BASE
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, all_joined, columns
from reward_ablation.study.provenance import Quantities, quantities
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.digests import digest_where_present, read_object
from reward_ablation.system.errors import StudyError

SCHEMAS = {
    # unscored: questions that are left out, because a metric has no score for some model's answer to them.
    "evaluation_by_run": columns(
        (TEXT, "arm"),
        (COUNT, "seed"),
        (TEXT, "dataset mode metric"),
        (NUMBER, "value"),
        (COUNT, "questions answers unscored"),
    ),
    # flagged_arms: those whose seeds differ more than chance allows.
    "evaluation_by_arm": columns((TEXT, "arm dataset mode metric"), *ESTIMATE, (TEXT, "flagged_arms")),
    # pooled_low, pooled_high: interval of a primary difference if the seeds of all arms differ alike.
    # baseline: the arm that is compared with; family: primary or exploratory; p_equivalent: of a difference as large as
    # the study's equivalence margin, or larger; decision: of a sequential study on a primary difference: different,
    # equivalent, open or undecided; its interval is then a repeated one, and p_holm is corrected for all looks.
    "paired_differences": columns(
        (TEXT, "arm baseline dataset mode metric"),
        *ESTIMATE,
        (NUMBER, "p p_holm p_equivalent pooled_low pooled_high"),
        (TEXT, "family decision flagged_arms provenance"),
    ),
    # method: the design's definition of an effect: leave_one_out, over_control, main_effect, regression or
    # quadratic_regression; note: why there is no estimate.
    "component_effects": columns(
        (TEXT, "dataset mode metric method component"), *ESTIMATE, (NUMBER, "p p_holm"), (TEXT, "flagged_arms note")
    ),
    # by: level or subject of the questions; group: its value; from_rest: the difference at the group's questions minus
    # that at all others, which p and p_holm (over the groups) test.
    "differences_by_level": columns(
        (TEXT, "arm baseline dataset mode metric by group"),
        *ESTIMATE,
        (NUMBER, "from_rest from_rest_low from_rest_high p p_holm"),
    ),
    # step: 0 is the base model, in every run.
    "learning_curves": columns(
        (TEXT, "arm"),
        (COUNT, "seed step"),
        (TEXT, "dataset mode metric"),
        (NUMBER, "value"),
        (COUNT, "questions answers"),
    ),
    # model: base (without a seed) or final; scores: by the study's own metrics; chosen: first, gained or lost.
    "examples": columns(
        (TEXT, "dataset mode problem_id question gold arm"),
        (COUNT, "seed"),
        (TEXT, "model completion answer"),
        (FLAG, "correct_strict correct_lenient format"),
        (COUNT, "tokens"),
        (FLAG, "truncated"),
        (TEXT, "scores chosen"),
    ),
}

#: Runs whose question means are kept for the second reading: some 250 MB for each data set.
RUNS_KEPT = 1000

#: An arm's answers by data set and mode.
Answers = dict[str, dict[str, Answered]]


def read_question_means(
    study: StudyFile, root: Path, dataset: str, model: str, base: QuestionMeans | None
) -> QuestionMeans:
    """Question means of one evaluated model, which must have answered the questions of the base model."""
    path, means = root / study.answers_file(dataset, model), means_of_answers(study, root, dataset, model)
    if base is not None and not (
        same_questions(means, base) and all(np.array_equal(means[mode].answers, base[mode].answers) for mode in base)
    ):
        raise StudyError(
            f"{path}: answers other questions than the base model did, or not as often; "
            "delete it and run the workflow again"
        )
    sampled = means[SAMPLED].answers if SAMPLED in means else np.zeros(1)
    if sampled.min() < sampled.max():
        raise StudyError(
            f"{path}: has {sampled.min()} sampled answers to some questions and {sampled.max()} to others; "
            "delete it and run the workflow again"
        )
    return means


def check_answers(study: StudyFile, root: Path) -> None:
    """Refuse answers to another version of the problems than the prepared one, and of an earlier training of their run.

    In one start of Snakemake, new code may prepare other problems after the evaluations were planned. Records of
    earlier versions name neither the problems nor the run, and are accepted.
    """
    prepared = {dataset: digest_where_present(root / study.questions[dataset]) for dataset in study.datasets}
    trained = {run.name: digest_where_present(root / run.folder / RECORD) for run in study.runs}
    for model in (BASE, *trained):
        for dataset in study.datasets:
            answers = root / study.answers_file(dataset, model)
            record = answers.with_suffix(".json")
            recorded = read_object(record, "delete it and run the workflow again") if record.is_file() else {}
            made_of = recorded.get("inputs", {})
            for name, digest, what in (
                ("problems", prepared[dataset], "to another version of the problems"),
                ("run", trained.get(model), "of an earlier training of the run"),
            ):
                if digest is not None and made_of.get(name, digest) != digest:
                    raise StudyError(f"{answers}: answers {what}; run the same command again")


def evaluation_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """All tables of evaluated models, by name; the runs' records and rollouts are checked first."""
    check_answers(study, root)
    records = read_runs(study, root, ["rollouts.parquet"])
    values = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    steps = {folder: record.steps for folder, record in records.items()}
    read = means_reader(study, root)
    final = final_model_tables(study, root, values, read)
    others = {
        "differences_by_level": differences_by_level(study, root, read),
        "learning_curves": learning_curves(study, root, steps),
        "examples": examples(study, root),
    }
    return final | all_joined(SCHEMAS, others)


def final_model_tables(
    study: StudyFile, root: Path, values: dict[str, Quantities], read: Reader
) -> dict[str, pd.DataFrame]:
    """Tables of the final models: by run and by arm, differences, and effects of components.

    Arms are read twice, one after the other: first for the seed means that all arms borrow from, then for estimates.
    Only an arm's part in the effects of components is kept, and the answers of arms that others are compared with.
    `values` has the provenance of each run, by folder; `read` gives the question means of an arm's runs.
    """
    metrics = metrics_of_study(study)
    by_run = {dataset: runs_of_dataset(study, dataset, read) for dataset in study.datasets}
    means = {dataset: seed_means(rows, study) for dataset, rows in by_run.items()}
    by_arm: dict[str, list[pd.DataFrame]] = {dataset: [] for dataset in study.datasets}
    differences = copy.deepcopy(by_arm)
    effects = effects_of(study)
    sums = EffectSums(effects, seeds_of(study, effects))
    pairs_with = pairs_by_arm(study)
    references = list(dict.fromkeys([study.baseline, *(against for _, against in pairs_of(study))]))
    held: dict[str, Answers] = {}
    for arm in [BASE, *references, *(arm for arm in study.arm_names if arm not in references)]:
        answers: Answers = {}
        for dataset in study.datasets:
            answers[dataset] = answered(read(dataset, arm), dataset, study.bootstrap, metrics)
            of_arms = {} if arm == BASE else means[dataset]
            by_arm[dataset].append(evaluation_rows(answers[dataset], arm, dataset, study.confidence, of_arms))
            sums.add(arm, dataset, answers[dataset])
        if arm in references:
            held[arm] = answers
        for one, against in pairs_with.get(arm, []):
            if not {one, against} <= {arm, *held}:  # the pair's other arm is still to be read
                continue
            provenance = difference_in_provenance(study.runs_of(one), study.runs_of(against), values)
            both = {one: held.get(one, answers), against: held.get(against, answers)}
            for dataset in study.datasets:
                of_dataset = {name: of_arm[dataset] for name, of_arm in both.items()}
                rows = difference_rows(one, against, of_dataset, dataset, study, means[dataset])
                differences[dataset].append(rows.assign(provenance=provenance))
    parts = {
        "evaluation_by_run": [
            rows.assign(unscored=len(without_score(study, root, dataset))) for dataset, rows in by_run.items()
        ],
        "evaluation_by_arm": in_order(by_arm, study),
        "paired_differences": [
            with_decisions(with_holm(table, study), study) for table in in_order(differences, study)
        ],
        "component_effects": effect_tables(sums, study, means),
    }
    return all_joined(SCHEMAS, parts)


def means_reader(study: StudyFile, root: Path) -> Reader:
    """A function of data set and arm that gives question means by seed; the base model's seed is None."""
    base = {dataset: read_question_means(study, root, dataset, BASE, None) for dataset in study.datasets}

    @lru_cache(maxsize=RUNS_KEPT)
    def of_run(dataset: str, run: str) -> QuestionMeans:
        return read_question_means(study, root, dataset, run, base[dataset])

    def read(dataset: str, arm: str) -> dict[int | None, QuestionMeans]:
        if arm == BASE:
            return {None: base[dataset]}
        return {run.seed: of_run(dataset, run.name) for run in study.runs_of(arm)}

    return read


def runs_of_dataset(study: StudyFile, dataset: str, read: Reader) -> pd.DataFrame:
    """Rows of evaluation_by_run of one data set, the base model first."""
    runs = [
        (arm, seed, over_questions(of_seed))
        for arm in [BASE, *study.arm_names]
        for seed, of_seed in read(dataset, arm).items()
    ]
    return evaluation_of_runs(runs, dataset)


def pairs_of(study: StudyFile) -> list[tuple[str, str]]:
    """Pairs of arms that are compared: each arm with the baseline and the control arm, and the declared contrasts."""
    pairs = [(arm, study.baseline) for arm in study.arm_names if arm != study.baseline]
    if study.control is not None:
        pairs += [(arm, study.control) for arm in study.arm_names if arm != study.control]
    pairs += [(contrast.arm, contrast.against) for contrast in study.primary.contrasts]
    return list(dict.fromkeys(pairs))


def pairs_by_arm(study: StudyFile) -> dict[str, list[tuple[str, str]]]:
    """Pairs of `pairs_of` that an arm is in, by arm."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs_of(study):
        for arm in {*pair}:
            pairs.setdefault(arm, []).append(pair)
    return pairs


def in_order(parts: dict[str, list[pd.DataFrame]], study: StudyFile) -> list[pd.DataFrame]:
    """Rows of each data set by arm, in the study's order, the base model first."""
    tables = []
    place = {arm: number for number, arm in enumerate([BASE, *study.arm_names])}
    for of_dataset in parts.values():
        if of_dataset:
            table = pd.concat(of_dataset, ignore_index=True)
            tables.append(table.iloc[table["arm"].map(place).argsort(kind="stable")])
    return tables


def with_holm(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Differences of one data set, sorted by reference arm, each with Holm's p-value within its family.

    The primary family is what the study declared. All other rows are exploratory: Holm's p-values hold for all arms of
    one mode and metric that are compared with the same arm, and not for everything that is looked at.
    """
    against = list(dict.fromkeys(name for _, name in pairs_of(study)))
    table = table.iloc[table["baseline"].map(against.index).argsort(kind="stable")]
    groups = [np.where(table["family"] == "primary", "", table["baseline"]), "mode", "metric", "family"]
    return table.assign(p_holm=table.groupby(groups)["p"].transform(lambda p: holm(p.to_numpy())))


def difference_in_provenance(arm: list[StudyRun], baseline: list[StudyRun], values: dict[str, Quantities]) -> str:
    """`same`, or `differs in ...`: quantities in which an arm's and the baseline's runs of one seed differ.

    Where the arms have different seeds, each run of one arm is compared with each run of the other.
    """
    of_seed = {run.seed: values[run.folder] for run in baseline}
    pairs = [(values[run.folder], of_seed[run.seed]) for run in arm if run.seed in of_seed]
    if {run.seed for run in arm} != of_seed.keys():
        pairs = [(values[run.folder], other) for run in arm for other in of_seed.values()]
    names = dict.fromkeys(name for one, other in pairs for name in [*one, *other])
    differing = [
        name for name in names if any(set(one.get(name, [])) != set(other.get(name, [])) for one, other in pairs)
    ]
    return f"differs in {', '.join(differing)}" if differing else "same"
