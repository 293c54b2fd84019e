"""The plan and its text: what the next start trains, evaluates and scores, and why, with an estimate of the hours.

`reward-ablation plan` prints the whole text, and a start prints the summary in one line (`start.reruns`). What is made
and why is `start.decide`'s; here it is counted and put into words, some of which the status shares.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from reward_ablation.start.decide import CODE_CHANGED, Decisions, PlannedRun
from reward_ablation.start.declarations import Declarations
from reward_ablation.start.estimates import BASE_MODEL, KINDS, Estimate, Evaluation, Evaluations, estimate_evaluations
from reward_ablation.study.run_folder import evaluation_file
from reward_ablation.study.study import Study

#: Characters of a line of the text.
WIDTH = 100
#: How many reasons are listed, how many arms below one reason, and how many arms in all. Free choices.
REASONS, ARMS_BELOW_A_REASON, ARMS_IN_ALL = 20, 12, 60
#: How many damaged runs are listed, and how many damaged files of answers. A free choice.
DAMAGED_RESULTS = 20


@dataclass(frozen=True)
class Plan:
    """What the next start of the study `name` will train and evaluate."""

    name: str
    folder: str  # the results folder, as the config has it
    runs: list[PlannedRun]  # the planned runs, in the study's order
    notes: list[str]  # notes on arms that share the runs of another arm, or whose runs were trained under another name
    unneeded: int  # number of finished runs on disk that are not the study's
    estimate: Estimate
    evaluations: Evaluations
    #: The damaged files of answers that are made again, by path relative to the results folder, and what is wrong.
    damaged_answers: dict[str, str]
    on_gpus: bool  # whether hours are GPU hours
    scorings: int = 0  # number of files of answers that the study's own metrics will score
    metrics: tuple[str, ...] = ()  # names of these metrics
    #: Lines on the primary question, claims and looks (tests at planned numbers of seeds), and since when they stand.
    declared: tuple[str, ...] = ()
    #: Inputs of runs that are made though finished runs stay; and made evaluation sets that the base model answered.
    inputs: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()

    @property
    def training(self) -> list[PlannedRun]:
        return [planned for planned in self.runs if planned.trains]


def plan_of(
    decisions: Decisions,
    names: set[str] | None = None,
    evaluations: Iterable[Evaluation] | None = None,
    scorings: int | None = None,
    inputs: set[str] | None = None,
) -> Plan:
    """The plan of a whole start, or of one that makes only these runs, evaluations, number of scorings and inputs."""
    study, history, pace = decisions.study, decisions.history, decisions.pace
    runs = [planned for name, planned in decisions.runs.items() if names is None or name in names]
    evaluations = decisions.evaluations if evaluations is None else list(evaluations)
    to_make = {evaluation.answers for evaluation in evaluations}
    declared = Declarations(study)
    lines = [line(decisions.standings) for line in (declared.primary_line, declared.claims_line, declared.looks_line)]
    return Plan(
        name=study.config.name,
        folder=study.config.root,
        runs=runs,
        notes=_notes(study),
        unneeded=len(history.records.keys() - study.runs.keys()),
        estimate=pace.estimate((planned.run, planned.steps_left) for planned in runs if planned.trains),
        evaluations=estimate_evaluations(study, evaluations, pace),
        damaged_answers={file: what for file, what in decisions.damaged_answers.items() if file in to_make}
        if to_make
        else {},
        on_gpus=study.config.launch.gpus > 0,
        scorings=len(decisions.scorings) if scorings is None else scorings,
        metrics=(*study.config.evaluation.metrics,),
        declared=tuple(line for line in lines if line),
        **_inputs(decisions, decisions.inputs_to_make if inputs is None else inputs),
    )


def _inputs(decisions: Decisions, made: set[str]) -> dict[str, tuple[str, ...]]:
    """Which inputs that are made have results on disk: other bytes would make these results stale."""
    study = decisions.study
    stays = any(not each.has_job and not each.diverged for each in decisions.runs.values())
    of_runs = (study.fetched_file, *study.trained_on) if stays else ()
    sets = [name for name in study.datasets if decisions.exists(f"{study.answers_folder}/{BASE_MODEL}/{name}.parquet")]
    return {
        "inputs": tuple(decisions.inputs[file] for file in dict.fromkeys(of_runs) if file in made),
        "sets": tuple(name for name in sets if evaluation_file(name) in made),
    }


def _notes(study: Study) -> list[str]:
    """A note for each arm whose runs do not have its name."""
    first_arms: dict[str, str] = {}
    notes = []
    for arm, key in study.keys.items():
        trained_as = study.folders[key].rpartition("-")[0]
        if key in first_arms:
            notes.append(f"arm {arm}: same runs as arm {first_arms[key]}, their specs are equal")
        elif study.keys.get(trained_as) != key:
            notes.append(f"arm {arm}: its runs are those in runs/{study.folders[key]}, of the same spec")
        first_arms.setdefault(key, arm)
    return notes


def plan_text(plan: Plan) -> str:
    """The whole text: a line of counts, each reason with its runs, damaged results, notes, and estimates."""
    evaluations = f", {plural(plan.evaluations.total, 'evaluation')} to make" if plan.evaluations.total else ""
    evaluations += f", {_files_to_score(plan)}" if plan.scorings else ""
    lines = [f"study {plan.name}: {len(plan.training)} of {plural(len(plan.runs), 'run')} to train{evaluations}", ""]
    lines += _reasons(plan.runs)
    if any(planned.why.startswith(CODE_CHANGED) for planned in plan.training):
        lines += ["", "to keep runs of other training code: add --any-code"]
    if damaged := damage_lines(plan):
        lines += ["", *damaged]
    if inputs := inputs_lines(plan):
        lines += ["", *inputs]
    for line in plan.declared:
        lines += ["", *textwrap.wrap(line, WIDTH, subsequent_indent="    ")]
    if plan.notes:
        lines += ["", *first_lines(plan.notes, REASONS, "more arms like these")]
    if plan.unneeded:
        others = f"{plural(plan.unneeded, 'finished run')} of other configs here"
        lines += ["", f"{others}; `reward-ablation prune` lists what is not needed"]
    if plan.training:
        lines += ["", estimate_text(plan)]
    judging = [*([evaluations_text(plan)] if plan.evaluations.total else []), *scorings_lines(plan)]
    if judging:
        lines += [*([] if plan.training else [""]), *judging]
    return "\n".join(lines)


def _reasons(runs: list[PlannedRun]) -> list[str]:
    """Lines with each reason, and below it its arms and seeds. Reasons to train come first."""
    by_reason: dict[tuple[bool, str], list[PlannedRun]] = {}
    for planned in runs:
        by_reason.setdefault((not planned.trains, planned.why), []).append(planned)
    reasons = sorted(by_reason, key=lambda reason: reason[0])
    most = max(2, min(ARMS_BELOW_A_REASON, ARMS_IN_ALL // len(reasons)))
    if sum(len(_arms_of(of_reason)) for of_reason in by_reason.values()) <= ARMS_IN_ALL:
        most = ARMS_IN_ALL
    name = max(len(planned.run.arm) for planned in runs)
    lines = []
    for stays, why in reasons[:REASONS]:
        of_reason = by_reason[stays, why]
        head = f"{'no training' if stays else 'train'}, {plural(len(of_reason), 'run')}: {why}"
        lines += textwrap.wrap(head, WIDTH, subsequent_indent="    ")
        arms = [f"arm {arm:{name}}  key {key}  {seeds(numbers)}" for (arm, key), numbers in _arms_of(of_reason).items()]
        lines += [f"    {line}" for line in first_lines(arms, most, "more arms")]
    if len(reasons) > REASONS:
        others = [planned for reason in reasons[REASONS:] for planned in by_reason[reason]]
        lines.append(f"and {plural(len(others), 'run')} for {plural(len(reasons) - REASONS, 'more reason')}")
    return lines


def summary(plan: Plan) -> str:
    """The plan in one line: how many runs are trained, why and for how long, the evaluations, and the scorings."""
    parts = []
    if plan.training:
        reasons = list(dict.fromkeys(planned.why for planned in plan.training))
        why = "; ".join(reasons[:2]) + (f"; {plural(len(reasons) - 2, 'more reason')}" if len(reasons) > 2 else "")
        parts = [f"{plural(len(plan.training), 'run')} to train ({why})", estimate_text(plan)]
    if plan.evaluations.total:
        parts.append(evaluations_text(plan))
    parts += scorings_lines(plan)
    return f"study {plan.name}: {'; '.join(parts)}"


def damage_lines(plan: Plan) -> list[str]:
    """A line for each run and each file of answers that is made again because of damage."""
    lines = []
    for planned in plan.training:
        if planned.damage:
            hours = "" if planned.hours is None else f" ({hours_text(planned.hours, plan.on_gpus)})"
            folder = f"{plan.folder}/runs/{planned.run.name}"
            lines.append(f"damaged: {folder}/{planned.damage}; the run is trained again{hours}")
    return [*_first_damaged(lines, "run"), *damaged_answers_lines(plan.folder, plan.damaged_answers)]


def damaged_answers_lines(folder: str, damaged: dict[str, str]) -> list[str]:
    """A line for each damaged file of answers. `damaged` has the problem by the path relative to the results folder."""
    lines = [f"damaged: {folder}/{file} {what}; the answers are made again" for file, what in damaged.items()]
    return _first_damaged(lines, "file")


def inputs_lines(plan: Plan) -> list[str]:
    """What is made again of the inputs of results that stay, and what other bytes would mean."""
    lines = []
    if plan.inputs:
        made = " and ".join(plan.inputs)
        lines.append(f"{made}: made again; if the bytes differ, the next start trains all runs again")
    if plan.sets:
        made = f"evaluation set{'' if len(plan.sets) == 1 else 's'} {' and '.join(plan.sets)}"
        lines.append(f"{made}: made again; if the bytes differ, the next start makes these answers again")
    return lines


def _first_damaged(lines: list[str], what: str) -> list[str]:
    """The first lines, and the number of further damaged runs or files (`what`)."""
    others = len(lines) - DAMAGED_RESULTS
    return first_lines(lines, DAMAGED_RESULTS, f"more damaged {what}{'' if others == 1 else 's'}")


def evaluations_text(plan: Plan) -> str:
    """Number and kinds of the evaluations to come, and their GPU hours or CPU hours."""
    evaluations = plan.evaluations
    kinds = [f"{evaluations.counts[kind]} {kind}" for kind in KINDS if kind in evaluations.counts]
    text = f"{plural(evaluations.total, 'evaluation')} to make: {', '.join(kinds)}; "
    if evaluations.unknown == evaluations.total:
        return f"{text}{_unit(plan.on_gpus)}: no estimate, because no evaluation on these data is on record"
    earlier = plural(evaluations.earlier, "earlier evaluation")
    text += f"about {hours_text(evaluations.device_hours, plan.on_gpus)}, from {earlier}"
    return text + (f"; {evaluations.unknown} of them of unknown length" if evaluations.unknown else "")


def scorings_lines(plan: Plan) -> list[str]:
    """A line on the files of answers that the study's own metrics will score; no line without such files."""
    metrics = f"metric{'' if len(plan.metrics) == 1 else 's'} {', '.join(plan.metrics)}"
    return [f"{_files_to_score(plan)}, by the {metrics}"] if plan.scorings else []


def _files_to_score(plan: Plan) -> str:
    return f"{plan.scorings} file{'' if plan.scorings == 1 else 's'} of answers to score"


def estimate_text(plan: Plan) -> str:
    """GPU hours of the training to come; CPU hours for runs without a GPU."""
    launches = [planned.run.launch for planned in plan.training]
    where = _where(sorted({launch.all_gpus or launch.process_count for launch in launches}), plan.on_gpus)
    estimate = plan.estimate
    if estimate.unknown == len(launches):
        where = where or ("on 1 GPU" if plan.on_gpus else "on the CPU")
        return f"{_unit(plan.on_gpus)}: no estimate, because no run of this study has finished {where}"
    per_step = estimate.hours * 3600 / estimate.steps if estimate.steps else 0
    hours = hours_text(estimate.device_hours, plan.on_gpus)
    text = f"about {hours}: {estimate.steps} steps of {_number(per_step)} s"
    text += f"{where and f' {where}'}, from {plural(estimate.earlier, 'finished run')}"
    return text + (f"; {plural(estimate.unknown, 'run')} more, of unknown length" if estimate.unknown else "")


def _where(processes: list[int], on_gpus: bool) -> str:
    """`on 2 to 4 GPUs`, `in 2 processes`; empty where each run has one."""
    if processes == [1]:
        return ""
    number = " to ".join(str(end) for end in dict.fromkeys([processes[0], processes[-1]]))
    return f"on {number} GPUs" if on_gpus else f"in {number} processes"


def _arms_of(runs: list[PlannedRun]) -> dict[tuple[str, str], list[int]]:
    """Seeds by arm and key."""
    arms: dict[tuple[str, str], list[int]] = {}
    for planned in runs:
        arms.setdefault((planned.run.arm, planned.run.key), []).append(planned.run.seed)
    return arms


def seeds(numbers: list[int]) -> str:
    """`seed 3`, `seeds 0-4, 7`."""
    ordered = sorted(numbers)
    parts = []
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        row = [number for _, number in group]
        parts.append(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}")
    return f"seed{'s' if len(ordered) > 1 else ''} {', '.join(parts)}"


def first_lines(lines: Sequence[str], most: int, others: str) -> list[str]:
    """At most `most` lines, and if there are more, a line on how many others there are."""
    return [*lines[:most], *([f"and {len(lines) - most} {others}"] if len(lines) > most else [])]


def plural(count: int, what: str) -> str:
    """`1 run`, `4 runs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def hours_text(value: float, on_gpus: bool) -> str:
    """`0.0031 GPU hours`, `120 CPU hours`."""
    return f"{_number(value)} {_unit(on_gpus)}"


def _unit(on_gpus: bool) -> str:
    return "GPU hours" if on_gpus else "CPU hours"


def _number(value: float) -> str:
    """Two significant digits below 9.95, else no decimals: 0.0031, 4.2, 120."""
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
