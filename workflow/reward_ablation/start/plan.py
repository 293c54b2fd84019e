"""The plan: which runs the next start will train, what it will evaluate, and why, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reward_ablation.start.damage import Damage
from reward_ablation.start.estimates import Estimate, Pace
from reward_ablation.start.evaluations import Evaluation, Evaluations, estimate_evaluations
from reward_ablation.start.history import History, Interrupted, arm_of
from reward_ablation.start.looks import looks_line
from reward_ablation.start.primary_question import claims_line, primary_line
from reward_ablation.start.stale import PresentInputs, stale_because
from reward_ablation.study.core_digest import of_checkpoints
from reward_ablation.study.run import Run
from reward_ablation.study.standing import standing_of
from reward_ablation.study.study import Study

DONE = "trained"
DAMAGED = "its files are damaged"
PUT_BACK = "trained, its run.json is put back"
DIVERGED = "diverged at step {}, left out; to train it again, delete its folder"
KEPT = "kept, as --rerun-triggers says"

#: Stands for the value of a key that one of two specs lacks.
ABSENT = object()
#: Longest value of a spec, in characters, that is not cut.
LONGEST = 40


@dataclass(frozen=True)
class PlannedRun:
    """A run, whether it will be trained, and why or why not."""

    run: Run
    trains: bool
    why: str
    #: Steps that the run still has to make; None where their number is not known.
    steps_left: int | None = 0
    #: Which file of the run is damaged and how, if the run is trained again because of damage.
    damage: str = ""
    #: GPU hours that the damaged run's training took, or CPU hours of a run without a GPU; None where not recorded.
    hours: float | None = None
    #: Whether the run diverged, and is left out.
    diverged: bool = False


@dataclass(frozen=True)
class Plan:
    """What the next start of the study `name` will train and evaluate."""

    name: str
    #: The results folder, as the config has it.
    folder: str
    #: The planned runs, in the study's order.
    runs: list[PlannedRun]
    #: Notes on arms that share the runs of another arm, or whose runs were trained under another name.
    notes: list[str]
    #: Number of finished runs on disk that are not the study's.
    unneeded: int
    estimate: Estimate
    evaluations: Evaluations
    #: The damaged files of answers that are made again, by path relative to the results folder, and what is wrong.
    damaged_answers: dict[str, str]
    #: Whether hours are GPU hours.
    on_gpus: bool
    #: A line with the primary question, and since when it is declared.
    primary: str = ""
    #: Number of files of answers that the study's own metrics will score.
    scorings: int = 0
    #: Names of these metrics.
    metrics: tuple[str, ...] = ()
    #: A line with the study's claims, and since when they are declared; empty without claims.
    claims: str = ""
    #: A line with the next look of a sequential study, and the open contrasts; empty without looks.
    looks: str = ""

    @property
    def training(self) -> list[PlannedRun]:
        """The runs that will be trained."""
        return [planned for planned in self.runs if planned.trains]


def plan_of(
    study: Study,
    history: History,
    present: PresentInputs,
    code_counts: bool = True,
    names: set[str] | None = None,
    evaluations: Iterable[Evaluation] = (),
    scorings: int = 0,
) -> Plan:
    """The plan of a study.

    `history` has its runs on disk, and `present` the code and inputs that runs would be trained with today.
    `code_counts` says whether runs of other code or inputs are trained again. It is False with `--rerun-triggers`
    without `params`. `names` are the runs to plan, and None stands for all. `evaluations` are those that the start
    makes. `scorings` is the number of files of answers that the start has scored by the study's own metrics.
    """
    pace, damage = Pace(history), Damage(study)
    planner = _Planner(history, present, damage, code_counts, pace, study.diverged)
    runs = [planner.planned(run) for run in study.runs.values() if names is None or run.name in names]
    evaluations = list(evaluations)
    to_make = {evaluation.answers for evaluation in evaluations}
    damaged = damage.all_answers() if to_make else {}
    records = {**history.records, **history.set_aside}
    began = [standing_of(records[name].get("attempts")) for name in study.runs if name in records]
    return Plan(
        name=study.config.name,
        folder=study.config.root,
        runs=runs,
        notes=_notes(study),
        unneeded=len(history.records.keys() - study.runs.keys()),
        estimate=pace.estimate((planned.run, planned.steps_left) for planned in runs if planned.trains),
        evaluations=estimate_evaluations(study, evaluations, pace),
        damaged_answers={file: problem for file, problem in damaged.items() if file in to_make},
        on_gpus=study.config.launch.gpus > 0,
        primary=primary_line(study, began),
        scorings=scorings,
        metrics=(*study.config.evaluation.metrics,),
        claims=claims_line(study, began),
        looks=looks_line(study, began),
    )


@dataclass(frozen=True)
class _Planner:
    """Decides for each run whether it is trained, and why."""

    history: History
    present: PresentInputs
    damage: Damage
    code_counts: bool
    pace: Pace
    #: Step at which each diverged run did so.
    diverged: dict[str, int]
    #: Why there is no result of a run, by the arm's folder. All seeds of an arm have the same reason.
    reasons_if_new: dict[str, str] = field(default_factory=dict)

    def planned(self, run: Run) -> PlannedRun:
        """The plan of one run."""
        if run.name in self.diverged:
            return PlannedRun(run, False, DIVERGED.format(self.diverged[run.name]), diverged=True)
        record = self.history.records.get(run.name)
        stale = None if record is None else stale_because(record, run, self.present)
        damaged = self.damage.of_run(run.name, record) if record else None
        if record and damaged is None and (stale is None or not self.code_counts):
            return PlannedRun(run, False, DONE if stale is None else f"{stale}; {KEPT}")
        set_aside = self.history.set_aside.get(run.name)
        if set_aside and stale_because(set_aside, run, self.present) is None:
            damaged = self.damage.of_run(run.name, set_aside, with_models=True)
            if damaged is None:
                return PlannedRun(run, False, PUT_BACK)
        steps = self.pace.steps_of(run)
        if damaged is not None and not (record and stale and self.code_counts):
            hours = (record or set_aside or {}).get("gpu_hours" if run.arm_spec.gpus else "cpu_hours")
            return PlannedRun(run, True, DAMAGED, steps, damaged, hours)
        if stale is not None:
            return PlannedRun(run, True, stale, steps)
        work = self.history.interrupted.get(run.name)
        if work is not None and goes_on(work, run, self.present) and (work.step or work.running):
            at = f"at step {work.step}{f' of {steps}' if steps else ''}"
            why = f"is being trained now, {at}" if work.running else f"interrupted {at}, goes on from there"
            return PlannedRun(run, True, why, None if steps is None else max(steps - work.step, 0))
        if work is not None and work.step:
            why = f"interrupted at step {work.step} under other code or data, begins anew"
            return PlannedRun(run, True, why, steps)
        if run.folder not in self.reasons_if_new:
            self.reasons_if_new[run.folder] = _why_new(run, self.history)
        return PlannedRun(run, True, self.reasons_if_new[run.folder], steps)


def goes_on(work: Interrupted, run: Run, present: PresentInputs) -> bool:
    """Whether unfinished work has this run's spec, code and data. Training deletes any other work and starts anew."""
    same_inputs = all(work.inputs.get(name) == digest for name, digest in present.inputs.items())
    same_spec = work.spec == {**run.arm_spec.content(), "seed": run.seed}
    same_code = work.code == run.code and of_checkpoints(work.modules) == present.checkpoint_modules(run)
    return same_spec and same_code and same_inputs


def _why_new(run: Run, history: History) -> str:
    """Why there is no result of a run, by comparison with the most similar earlier spec of the same arm."""
    if not history.arms:
        return "not trained yet"
    trained_as = arm_of(run.name)
    if any(name.startswith(f"{run.folder}/") for name in history.arms.get(trained_as, {})):
        return "new seed"
    spec = run.arm_spec.content()
    earlier = {name.partition("/")[0]: record for name, record in history.arms.get(run.arm, {}).items()}
    changes = [differences(record["spec"], spec) for record in earlier.values() if isinstance(record.get("spec"), dict)]
    return ", ".join(sorted(changes, key=len)[0]) if changes else "new arm"


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


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The differences of two specs without seeds, in words, weights first.

    >>> differences({"weights": {"format": 0.33}}, {"weights": {"format": 0.5}})
    ['format 0.33 → 0.5']
    """
    texts = [(path[0] != "weights", _in_words(path, old, new)) for path, old, new in leaves(before, after)]
    return [text for _, text in sorted(dict.fromkeys(texts), key=lambda item: item[0])]


def leaves(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Paths at which two values differ, with both values. A component that only one of them has is one difference."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from leaves(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
    else:
        yield path, before, after


def _in_words(path: tuple[str, ...], old: Any, new: Any) -> str:
    section, *rest = path
    name = " ".join(rest)
    change = f"{_value(old)} → {_value(new)}"
    match section, rest:
        case "weights", [component]:
            return f"{component} {_value(0 if old is ABSENT else old)} → {_value(0 if new is ABSENT else new)}"
        case "components", [component]:
            return f"component {component} {'is new' if old is ABSENT else 'is gone'}"
        case "components", [component, "code"]:
            return f"component {component}: its code changed"
        case "components", [component, "parameters", parameter]:
            return f"component {component}: {parameter} {change}"
        case "components", [component, *keys]:
            return f"component {component}: {' '.join(keys)} {change}"
        case "training", [setting]:
            return f"{setting} {change}"
        case (("data" | "model"), _) if rest[-1:] == ["content"]:
            return "the training set changed" if section == "data" else "the base model changed"
        case "data", ["source", *keys] if keys:
            return f"data: {' '.join(keys)} {change}"
        case _:
            return f"{section}: {name} {change}" if name else f"{section} {change}"


def _value(value: Any) -> str:
    """A value as written in a config. Commit hashes are cut to their first digits, and long texts are cut."""
    if value is ABSENT:
        return "(default)"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if re.fullmatch(r"[0-9a-f]{16,}", text):
        return text[:8]
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
