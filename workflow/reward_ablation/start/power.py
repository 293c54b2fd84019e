"""The command `reward-ablation power`: which effects a study of this design would find.

`start.command_line` calls it, before the first run or after. `budget` shares its variances and words. The computation
is `design.power`; here are the designs to compare, where the variances are from, the text, the table and the figure.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import is_of_samples
from reward_ablation.analysis.statistics.limits import SHARE, Limits
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import write_csv
from reward_ablation.design.power import SEEDS, STUDIES, TARGET, Analysis, Design, Plan, Variance
from reward_ablation.design.variances import (
    CONFIDENCE,
    Components,
    Pair,
    Stated,
    components_from_stated,
    finished_runs,
    override_components,
    pilot_of,
    read_pilot,
)
from reward_ablation.figures.power import power as power_figure
from reward_ablation.figures.style import save_pdf, save_png
from reward_ablation.start.declarations import Declarations
from reward_ablation.study.primary import Question
from reward_ablation.study.study import Study, described_runs
from reward_ablation.system.errors import StudyError
from reward_ablation.system.plain_values import printable

#: Folder of the command's files, below the study's results.
FOLDER = "design"
#: Numbers of seeds in the table, besides the study's own number and one more. A free choice.
TABLE_SEEDS = (2, 3, 4, 5, 6, 8, 10)
#: Effects that are examined where the user states none, as fractions of the metric's range. A free choice.
EFFECTS = (0.05, 0.1)
#: Options for stated variances, which several commands take.
STATED = ("seed_sd", "question_sd", "answer_sd", "mean")
#: Advice for a user who has to state how much seeds differ.
ADVICE = "add --pilot FOLDER for the results folder of another study, or --seed-sd NUMBER"
#: Characters of a line of the text.
WIDTH = 110
#: How many contrasts are printed, a free choice. The table has all.
MOST = 6


def power(study: Study, keys: Mapping[str, Any], studies: int = STUDIES) -> str:
    """Write the table and the figure of a study's power, and return in words what they show."""
    file = described(study)
    pairs = [(contrast.arm, contrast.against) for contrast in study.question.contrasts]
    if not pairs:
        raise StudyError("power: the study has one arm and no primary contrast; add an arm")
    limits = metrics_of_study(file).limits(study.question.metric)
    components = components_of(study, file, keys, limits, pairs)
    effects = effects_of(keys.get("effect"), limits, file.equivalence_margin)
    samples = study.config.evaluation.samples if study.question.mode == "sampled" else 1
    questions = questions_of(study, keys) or components.questions
    own = {pair: Design(own_seeds(study, pair), questions, samples) for pair in pairs}
    plan = Plan(components, Analysis(pairs, file.confidence, file.seed_variance == "moderated"), studies)
    table = plan.table(designs(own.values(), components), effects)
    paths = [study.results / FOLDER / f"power.{kind}" for kind in ("csv", "pdf", "png")]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    write_csv(table, paths[0])
    figure = power_figure(table, min(own.values()), file)
    save_pdf(figure, paths[1], "power")
    save_png(figure, paths[2])
    files = [f"written: {path.relative_to(study.root)}" for path in paths]
    looks = study.looks.looks if study.looks else []
    return power_text(study.question, plan, own, effects, table, files, looks)


def own_seeds(study: Study, pair: Pair) -> int:
    """The smaller number of seeds of two arms, but at least 2, which an interval needs; with looks, the last look's."""
    if study.looks:
        return study.looks.looks[-1]
    return max(2, min(len(study.config.seeds_of(arm)) for arm in pair))


def described(study: Study) -> StudyFile:
    """The study as the next start would write it to `study.json`, without claims and looks; no file is written."""
    content = {**study.summary, "primary": Declarations(study).primary.model_dump(), "runs": described_runs(study)}
    return StudyFile.model_validate(content)


def components_of(
    study: Study, file: StudyFile, keys: Mapping[str, Any], limits: Limits, pairs: list[Pair]
) -> Components:
    """Variance components from the pilot, else from own finished runs, else stated; stated values replace others."""
    values = Stated(**{name: positive(name, keys[name]) for name in STATED if name in keys})
    folder, question = study.results, study.question
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
    if not pilot.question and values.question_sd is None:
        raise StudyError(
            f"{pilot.source}: no two compared arms have finished runs, which say how much a difference varies between "
            "questions; state --question-sd, or name another pilot"
        )
    return override_components(pilot.for_arms(study.arms, pairs), values)


def questions_of(study: Study, keys: Mapping[str, Any]) -> int | None:
    """Number of questions: as stated, else of the prepared data set, else by the config; None where not known yet."""
    if "questions" in keys:
        number = positive("questions", keys["questions"])
        if number < 2 or number != int(number):
            raise StudyError(f"--questions: {number:g} is not a number of questions; state a whole number above 1")
        return int(number)
    name = study.question.dataset
    prepared = study.results / dict(zip(study.config.data.evaluation, study.evaluation_files, strict=True))[name]
    try:
        return int(pq.read_metadata(prepared).num_rows)
    except (OSError, ValueError):  # not prepared yet, or damaged, which the evaluation reports
        source = study.config.data.evaluation[name]
        known = [number for number in (getattr(source, "count", None), source.limit) if number is not None]
        return min(known, default=None)


def effects_of(written: Any, limits: Limits, margin: float | None) -> list[float]:
    """The effects to examine: as stated, else of a share the equivalence margin, else usual ones within limits."""
    if written is not None:
        effects = [positive("effect", value) for value in written]
    elif not limits.finite:
        raise StudyError("--effect: this metric has no limits; state the effect to examine, such as --effect 5")
    elif margin is not None and limits == SHARE:
        effects = [margin]
    else:
        effects = [(limits.high - limits.low) * each for each in EFFECTS]
    if not effects or len(effects) > 3 or max(effects) >= limits.high - limits.low:
        raise StudyError(f"--effect: state one to three effects, each below {limits.high - limits.low:g}")
    return effects


def positive(name: str, value: Any) -> float:
    """A stated value, which must be a number above 0."""
    if not (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0):
        option = f"--{name.replace('_', '-')}"
        raise StudyError(f"{option}: {value!r} is not a number above 0; state a number, such as {option} 0.02")
    return float(value)


def designs(own: Collection[Design], components: Components) -> list[Design]:
    """Designs of the table: each number of seeds with the study's size, twice the questions, or twice the samples."""
    seeds = sorted({*TABLE_SEEDS, *(each.seeds + more for each in own for more in (0, 1))})
    first = min(own)
    sizes = [first, first._replace(questions=2 * first.questions)]
    if any(components.sample.values()):
        sizes.append(first._replace(samples=2 * first.samples))
    return [size._replace(seeds=number) for size in sizes for number in seeds]


def power_text(
    question: Question,
    plan: Plan,
    own: Mapping[Pair, Design],
    effects: Sequence[float],
    table: pd.DataFrame,
    files: Sequence[str],
    looks: Sequence[int],
) -> str:
    """The whole text; `own` is the design of each contrast, and `table` has the power of several."""
    confidence, pairs, size = plan.analysis.confidence, plan.analysis.pairs, min(own.values())
    lines = wrapped(
        f"{question.metric} on {question.dataset} ({question.mode}): {size.questions:,} questions"
        + (f" with {size.samples} samples" if question.mode == "sampled" else "")
        + f"; {len(pairs)} primary contrast{'s' if len(pairs) > 1 else ''}, found where p_holm < "
        f"{1 - confidence:g}"
    )
    lines += ["", *variance_lines(plan.components)]
    for pair in pairs[:MOST]:
        lines += ["", *contrast_lines(plan, own[pair], pair, effects, table)]
    if len(pairs) > MOST:
        lines += ["", f"and {len(pairs) - MOST} more contrasts in the table"]
    marked = "the seeds of the two arms, the fewer where they differ; of one seed the fewest that have an interval, 2"
    if looks:
        marked = (
            f"the seeds of the last look. The looks at {', '.join(map(str, looks))} seeds are not counted: each row is "
            "of one test at its number of seeds. With looks, intervals are longer and power is less than in this row"
        )
    notes = (
        f"*: {marked}. length: mean length of the {100 * confidence:g} % interval, and in brackets the range of 80 % "
        "of studies, by the pilot's estimate of the variance between seeds. found: smallest effect with a power of "
        f"{100 * TARGET:.0f} %. power of +x: chance to find an arm that differs by x from all others, and in "
        "brackets the chances at the ends of the interval of the variance between seeds."
    )
    return "\n".join([*lines, "", *wrapped(notes), "", *map(printable, files)])


def variance_lines(components: Components) -> list[str]:
    """Lines on where the variance components are from, and how uncertain they are."""
    lines = wrapped(f"variances: {printable(components.source)}")
    arms = list(components.means)
    ends = components.seed.ends()
    spread = [of_scale(components, np.sqrt(end)) for end in (components.seed.variance, *ends)]
    if np.isfinite(components.seed.degrees):
        degrees = f"{components.seed.degrees:.0f} degree{'s' if components.seed.degrees > 1 else ''} of freedom"
        certain = f"{100 * CONFIDENCE:.0f} % interval {number(spread[1])} to {number(spread[2])}, {degrees}"
        if components.seeds == 2:
            certain += ": two seeds say little, so the ranges below are wide"
    else:
        certain = "stated, and taken as certain"
    lines += wrapped(f"between seeds: standard deviation {number(spread[0])} ({certain})", "  ")
    own = [
        f"{arm} {number(components.slope(arm) * np.sqrt(part.variance))}{' (†)' if arm in components.flagged else ''}"
        for arm, part in components.by_arm.items()
        if arm in arms
    ]
    if own:
        lines += wrapped(f"of each arm alone: {', '.join(own)}", "  ")
    if components.flagged:
        lines += wrapped("†: this arm's seeds differ more than those of other arms; its own variance is used", "  ")
    question = np.sqrt([*components.question.values()])
    answer = np.sqrt([components.interaction[arm] + components.sample[arm] for arm in arms])
    lines += wrapped(
        f"of a difference between questions: {span(question)}; of an answer to one question, over seeds"
        f"{' and samples' if any(components.sample.values()) else ''}: {span(answer)}",
        "  ",
    )
    return lines


def contrast_lines(plan: Plan, own: Design, pair: Pair, effects: Sequence[float], table: pd.DataFrame) -> list[str]:
    """Lines on a contrast: a row for each number of seeds, the fewest seeds for each effect, and `narrowing`."""
    of_pair = table[(table["arm"] == pair[0]) & (table["against"] == pair[1])]
    here = of_pair[(of_pair["questions"] == own.questions) & (of_pair["samples"] == own.samples)]
    head = f"{'seeds':>5}  {'length of the interval':<24}{'found':<8}"
    lines = [f"{pair[0]} against {pair[1]}", head + "".join(f"{f'power of +{x:g}':<24}" for x in effects)]
    limits = plan.components.limits
    for seeds, rows in here.groupby("seeds"):
        first = rows.iloc[0]
        found = "none" if first["detectable"] > limits.high - limits.low else number(first["detectable"])
        length = f"{number(first['length'])} ({number(first['length_low'])} to {number(first['length_high'])})"
        powers = [f"{row.power:.2f} ({row.power_low:.2f} to {row.power_high:.2f})" for row in rows.itertuples()]
        mark = "*" if seeds == own.seeds else " "
        lines.append(f"{mark}{seeds:>4}  {length:<24}{found:<8}" + "".join(f"{p:<24}" for p in powers))
    for effect in effects:
        few, low, high = (
            plan.fewest_seeds(own, pair, effect, end) for end in (Variance.ESTIMATED, Variance.LOW, Variance.HIGH)
        )
        certain = low == few == high
        between = "" if certain else f" ({count(low)} to {count(high)}, by the interval of the variance between seeds)"
        lines += wrapped(f"fewest seeds for +{effect:g} with a power of {TARGET:g}: {count(few)}{between}", "  ")
    return [line.rstrip() for line in [*lines, *wrapped(narrowing(of_pair, own), "  ")]]


def narrowing(of_pair: pd.DataFrame, own: Design) -> str:
    """How long a contrast's interval would be with one more seed, or with twice the questions or samples."""
    lengths = of_pair.groupby(["seeds", "questions", "samples"])["length"].first()
    options = {
        "one more seed": own._replace(seeds=own.seeds + 1),
        "twice the questions": own._replace(questions=2 * own.questions),
        "twice the samples": own._replace(samples=2 * own.samples),
    }
    shorter = [f"{number(lengths[size])} with {what}" for what, size in options.items() if size in lengths.index]
    return f"length with {own.seeds} seeds: {number(lengths[own])}; {', '.join(shorter)}"


def of_scale(components: Components, deviation: float) -> float:
    """A standard deviation on the comparable scale in units of the metric, averaged over the arms."""
    return float(np.mean([components.slope(arm) for arm in components.means]) * deviation)


def span(values: np.ndarray) -> str:
    """`0.02 to 0.05`, the lowest and the highest value; one value where both read the same."""
    low, high = (number(end) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def number(value: float) -> str:
    """Three decimals below 1, else (or where they would be 0) two significant digits, and no power of ten."""
    size = abs(value)
    if size >= 99.5:  # with two significant digits it would read 1e+02
        return f"{value:.0f}"
    return f"{value:.3f}" if size == 0 or 0.0005 <= size < 1 else f"{value:.2g}"


def count(seeds: int | None) -> str:
    """A number of seeds; None means more than the largest number that is examined."""
    return f"more than {SEEDS[-1]}" if seeds is None else str(seeds)


def wrapped(text: str, indent: str = "") -> list[str]:
    """The lines of a wrapped text; later lines are indented further."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
