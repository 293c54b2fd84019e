"""Tables of evaluated models, from the answers of all runs of a study.

The rule `tables_evaluation` calls `write`. This module has the columns and the order of the tables. `compare` and the
looks of a sequential study (its tests after more and more seeds) take the rows by run from here.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.evaluation.answers import AnswersReader, answers_reader, difference_rows, evaluation_rows
from reward_ablation.analysis.evaluation.by_level import differences_by_level
from reward_ablation.analysis.evaluation.effects import effect_rows, effects_of
from reward_ablation.analysis.evaluation.examples import examples, write_examples_page
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, runs_means, seed_means
from reward_ablation.analysis.evaluation.stored_answers import (
    Reader,
    check_answers,
    means_by_step,
    means_reader,
    without_score,
)
from reward_ablation.analysis.provenance import difference_in_provenance
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.statistics.estimates import holm
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import BASE, StudyFile
from reward_ablation.analysis.tables import COUNT, ESTIMATE, FLAG, NUMBER, TEXT, Parts, columns, write_tables
from reward_ablation.study.provenance import Quantities, quantities

SCHEMAS = {
    # unscored: questions that are left out, because a metric has no score for some model's answer to them.
    "evaluation_by_run": columns(
        (TEXT, "arm"),
        (COUNT, "seed"),
        (TEXT, "dataset mode metric"),
        (NUMBER, "value"),
        (COUNT, "questions answers unscored"),
    ),
    # flagged_arms: those whose seeds differ more than the other arms' do, beyond chance.
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
    # scores: by the study's own metrics; chosen: first, gained or lost.
    "examples": columns(
        (TEXT, "dataset mode problem_id question gold arm"),
        (COUNT, "seed"),
        (TEXT, "completion answer"),
        (FLAG, "correct_strict correct_lenient format"),
        (COUNT, "tokens"),
        (FLAG, "truncated"),
        (TEXT, "scores chosen"),
    ),
}

#: Columns of a primary difference that come from the last look at it.
OF_LOOK = ["estimate", "low", "high", "seeds", "p", "p_holm", "decision"]

#: Columns that a look does not record. They are of all seeds, and so are empty beside its numbers.
NOT_OF_LOOK = ["p_equivalent", "pooled_low", "pooled_high"]


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of evaluated models and the page of examples, from the answers of all models."""
    root = options.study.parent
    shown = pd.DataFrame(columns=SCHEMAS["examples"].names)

    def parts() -> Parts:  # each is written as it comes; the page needs the part of `examples`, which has only one
        nonlocal shown
        for name, rows in evaluation_tables(study, root):
            shown = rows if name == "examples" else shown
            yield name, rows

    write_tables(parts(), SCHEMAS, options.output)
    write_examples_page(shown, study, options.output / "examples.html")


def evaluation_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of all tables of evaluated models. First come checks, of rollouts too: a damaged run has no tables."""
    check_answers(study, root)
    records = read_runs(study, root, ["rollouts.parquet"])
    provenance = {folder: quantities(record.model_dump()) for folder, record in records.items()}
    steps = {folder: record.steps for folder, record in records.items()}
    read = means_reader(study, root)
    yield from final_model_tables(study, root, provenance, read)
    yield from (("differences_by_level", rows) for rows in differences_by_level(study, root, read))
    yield from (("learning_curves", rows) for rows in learning_curves(study, root, steps, read))
    yield from (("examples", rows) for rows in examples(study, root))


def final_model_tables(study: StudyFile, root: Path, provenance: dict[str, Quantities], read: Reader) -> Parts:
    """Parts of the tables of the final models: by run and by arm, differences, and effects of components."""
    answers, effects = answers_reader(study, read), effects_of(study)
    for dataset in study.datasets:
        by_run = runs_of_dataset(study, dataset, read)
        yield "evaluation_by_run", by_run.assign(unscored=len(without_score(study, root, dataset)))
        means = seed_means(by_run, study)
        for arm in study.evaluated_names:
            lent = {} if arm == BASE else means  # the base model has no seeds, and borrows no variance
            yield "evaluation_by_arm", evaluation_rows(answers(dataset, arm), arm, dataset, study.confidence, lent)
        if pairs := pairs_of(study):
            yield "paired_differences", paired_differences(study, pairs, dataset, answers, means, provenance)
        yield from (("component_effects", rows) for rows in effect_rows(study, effects, dataset, answers, means))


def runs_of_dataset(study: StudyFile, dataset: str, read: Reader) -> pd.DataFrame:
    """Rows of evaluation_by_run of one data set, the base model first."""
    runs = ((arm, *run) for arm in study.evaluated_names for run in read(dataset, arm).items())
    return runs_means(((arm, seed, None, means) for arm, seed, means in runs), dataset)  # None: of no single step


def pairs_of(study: StudyFile) -> list[tuple[str, str]]:
    """Pairs of arms that are compared: with the baseline, the control, and as declared; sorted by the second arm."""
    pairs = [(arm, study.baseline) for arm in study.arm_names if arm != study.baseline]
    if study.control is not None:
        pairs += [(arm, study.control) for arm in study.arm_names if arm != study.control]
    pairs += [(contrast.arm, contrast.against) for contrast in study.primary.contrasts]
    compared_with, arms = list(dict.fromkeys(name for _, name in pairs)), study.evaluated_names
    known = [pair for pair in dict.fromkeys(pairs) if set(pair) <= set(arms)]  # a preview lacks arms of some contrasts
    return sorted(known, key=lambda pair: (compared_with.index(pair[1]), arms.index(pair[0])))


def paired_differences(
    study: StudyFile,
    pairs: Iterable[tuple[str, str]],
    dataset: str,
    answers: AnswersReader,
    means: Mapping[str, SeedMeans],
    provenance: dict[str, Quantities],
) -> pd.DataFrame:
    """Differences of one data set, each with Holm's p-value within its family.

    The primary family is what was declared. An exploratory family is the other rows of a mode, metric and baseline.
    """
    parts = []
    for arm, against in pairs:
        of_pair = {name: answers(dataset, name) for name in (arm, against)}
        difference = difference_in_provenance(study.runs_of(arm), study.runs_of(against), provenance)
        parts.append(difference_rows(arm, against, of_pair, dataset, study, means).assign(provenance=difference))
    table = pd.concat(parts, ignore_index=True)
    # One primary family, whatever the baselines; exploratory ones by baseline.
    groups = [np.where(table["family"] == "primary", "", table["baseline"]), "mode", "metric", "family"]
    p_holm = table.groupby(groups)["p"].transform(lambda p: holm(p.to_numpy()))
    return with_decisions(table.assign(p_holm=p_holm), study)


def with_decisions(table: pd.DataFrame, study: StudyFile) -> pd.DataFrame:
    """Differences in which, in a sequential study, the last look at a contrast replaces the primary row's numbers."""
    table = table.assign(decision=pd.Series(None, index=table.index, dtype=object))
    record = study.sequential
    if record is None or not record.in_force:
        return table
    for contrast in study.primary.contrasts:
        if found := record.decision(contrast):
            rows = (table["arm"] == contrast.arm) & (table["baseline"] == contrast.against)
            rows &= table["family"] == "primary"
            for column in OF_LOOK:
                table.loc[rows, column] = getattr(found[1], column)  # the contrast at that look
            table.loc[rows, NOT_OF_LOOK] = np.nan
    return table


def learning_curves(study: StudyFile, root: Path, last_steps: dict[str, int], read: Reader) -> list[pd.DataFrame]:
    """Parts of learning_curves, if models were kept: evaluation_by_run by step, from the base model (0) to the end."""

    def models(dataset: str) -> Iterable[tuple[str, int, int, QuestionMeans]]:
        for run in study.runs:
            by_step = means_by_step(study, root, read, run, dataset, last_steps[run.folder])
            yield from ((run.arm, run.seed, step, means) for step, means in by_step.items())

    return [runs_means(models(dataset), dataset) for dataset in (study.datasets if study.keep_models else [])]
