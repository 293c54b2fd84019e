"""`reward-ablation power`: which effects a study of this design would find. It works before the first run and after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import is_of_samples
from reward_ablation.analysis.statistics.limits import Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import write_csv
from reward_ablation.design.pilot import finished_runs, pilot_of, read_pilot
from reward_ablation.design.power import STUDIES, Analysis, Design, Plan
from reward_ablation.design.variances import Components, Pair, Stated, components_from_stated, override_components
from reward_ablation.figures.power import power as power_figure
from reward_ablation.figures.style import save_pdf, save_png
from reward_ablation.start.power_text import power_text
from reward_ablation.study.description import described_runs
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

#: Folder of the command's files, below the study's results.
FOLDER = "design"

#: Numbers of seeds in the table, besides the study's own number and one more.
SEEDS = (2, 3, 4, 5, 6, 8, 10)

#: Effects that are examined where the user states none, as parts of the metric's range.
EFFECTS = (0.05, 0.1)

#: Options for stated variances, which several commands take.
STATED = ("seed_sd", "question_sd", "answer_sd", "mean")

#: Advice for a user who has to state how much seeds differ.
ADVICE = "add --pilot FOLDER for the results folder of another study, or --seed-sd NUMBER"


def power(study: Study, keys: Mapping[str, Any], studies: int = STUDIES) -> str:
    """Write the table and the figure of a study's power, and return in words what they show.

    `keys` are the values of the command's options, and `studies` is the number of simulated studies for each design.
    Raises StudyError if an option has an invalid value, if nothing says how much seeds differ, or if the study has no
    primary contrast.
    """
    file = described(study)
    pairs = [(contrast.arm, contrast.against) for contrast in study.question.contrasts]
    if not pairs:
        raise StudyError("power: the study has one arm and no primary contrast; add an arm")
    limits = metrics_of_study(file).limits(study.question.metric)
    components = components_of(study, file, keys, limits, pairs)
    effects = effects_of(keys.get("effect"), limits, file.equivalence_margin)
    samples = study.config.evaluation.samples if study.question.mode == "sampled" else 1
    design = Design(max(len(study.config.listed_seeds), 2), questions_of(study, keys) or components.questions, samples)
    plan = Plan(components, Analysis(pairs, file.confidence, file.seed_variance == "moderated"), studies)
    table = plan.table(designs(design, components), effects)
    paths = [study.root / study.config.root / FOLDER / f"power.{kind}" for kind in ("csv", "pdf", "png")]
    write(table, design, paths, file)
    files = [f"written: {path.relative_to(study.root)}" for path in paths]
    return power_text(study.question, plan, design, effects, table, files)


def described(study: Study) -> StudyFile:
    """The study as the next start would write it to `study.json`; no file is read or written."""
    content = {**study.summary, "primary": study.primary.model_dump(), "runs": described_runs(study)}
    return StudyFile.model_validate(content)


def components_of(
    study: Study, file: StudyFile, keys: Mapping[str, Any], limits: Limits, pairs: list[Pair]
) -> Components:
    """Variance components from the stated pilot, else from the study's own finished runs, else from stated values.

    Raises StudyError if the pilot cannot be used, or if nothing says how much seeds differ or how many questions there
    are.
    """
    values = Stated(**{name: positive(name, keys[name]) for name in STATED if name in keys})
    folder, question = study.root / study.config.root, study.question
    runs = finished_runs(file, folder, question.dataset)
    repeated = len(runs) > len({run.arm for run in runs})
    if "pilot" in keys:
        pilot = read_pilot(study.root / keys["pilot"], question, keys["pilot"])
        if pilot.limits != limits:
            raise StudyError(f"--pilot {keys['pilot']}: {question.metric} has another range there; state --seed-sd")
    elif repeated:
        pilot = pilot_of(file, folder, question, f"{len(runs)} finished runs in {study.config.root}")
    elif values.seed_sd is None:
        raise StudyError(f"power: no arm has two finished seeds, which say how much seeds differ; {ADVICE}")
    else:
        all_from_seeds = question.mode == "greedy" or is_of_samples(question.metric)
        questions, samples = questions_of(study, keys), max(study.config.evaluation.samples, 1)
        if questions is None:
            raise StudyError("--questions: the data set is not prepared, so its size is not known; state --questions")
        return components_from_stated(values, limits, questions, samples, all_from_seeds, [*study.arms], pairs)
    return override_components(pilot.for_arms(study.arms, pairs), values)


def questions_of(study: Study, keys: Mapping[str, Any]) -> int | None:
    """Number of questions: as stated, else of the prepared data set, else by the config; None where not known yet."""
    if "questions" in keys:
        number = positive("questions", keys["questions"])
        if number < 2 or number != int(number):
            raise StudyError(f"--questions: {number:g} is not a number of questions; state a whole number above 1")
        return int(number)
    name = study.question.dataset
    keyed = next(keyed for short, keyed in zip(study.dataset_names, study.datasets, strict=True) if short == name)
    prepared = study.root / study.config.root / "data" / "evaluation" / f"{keyed}.parquet"
    try:
        return int(pq.read_metadata(prepared).num_rows)
    except (OSError, ValueError):  # not prepared yet, or damaged, which the evaluation reports
        source = study.config.data.evaluation[name]
        known = [number for number in (getattr(source, "count", None), source.limit) if number is not None]
        return min(known, default=None)


def effects_of(written: Any, limits: Limits, margin: float | None) -> list[float]:
    """The effects to examine: as stated, else the equivalence margin, else usual effects for a metric with limits."""
    if written is not None:
        effects = [positive("effect", value) for value in written]
    elif not limits.finite:
        raise StudyError("--effect: this metric has no limits; state the effect to examine, such as --effect 5")
    else:
        effects = [margin] if margin is not None else [(limits.high - limits.low) * each for each in EFFECTS]
    if not effects or len(effects) > 3 or max(effects) >= limits.high - limits.low:
        raise StudyError(f"--effect: state one to three effects, each below {limits.high - limits.low:g}")
    return effects


def positive(name: str, value: Any) -> float:
    """A stated value, which must be a number above 0."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0):
        option = f"--{name.replace('_', '-')}"
        raise StudyError(f"{option}: {value!r} is not a number above 0; state a number, such as {option} 0.02")
    return float(value)


def designs(own: Design, components: Components) -> list[Design]:
    """Designs of the table: several numbers of seeds, each with the own size, twice the questions, twice the samples.

    Samples are not doubled where they add no variance.
    """
    seeds = sorted({*SEEDS, own.seeds, own.seeds + 1})
    sizes = [own, own._replace(questions=2 * own.questions)]
    if any(components.sample.values()):
        sizes.append(own._replace(samples=2 * own.samples))
    return [size._replace(seeds=number) for size in sizes for number in seeds]


def write(table: pd.DataFrame, own: Design, paths: list[Path], file: StudyFile) -> None:
    """Write the table, and the figure as PDF and PNG."""
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    write_csv(table, paths[0])
    figure = power_figure(table, own, file)
    save_pdf(figure, paths[1], "power")
    save_png(figure, paths[2])
