"""What the next start will train and evaluate, and why: each run of a study, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reward_ablation.start.damage import Damage
from reward_ablation.start.estimates import Estimate, Pace
from reward_ablation.start.evaluations import Evaluation, Evaluations, estimated
from reward_ablation.start.history import History, Interrupted, arm_of
from reward_ablation.start.looks import looks_line
from reward_ablation.start.primary_question import claims_line, primary_line
from reward_ablation.start.stale import Present, stale_because
from reward_ablation.study.core_digest import of_checkpoints
from reward_ablation.study.run import Run
from reward_ablation.study.study import Study

DONE = "trained"
DAMAGED = "its files are damaged"
PUT_BACK = "trained, its run.json is put back"
KEPT = "kept, as --rerun-triggers says"

#: Value of a key that one of two specs does not have.
ABSENT = object()
#: Longest value of a spec that is told whole.
LONGEST = 40


@dataclass(frozen=True)
class PlannedRun:
    """A run, whether it will be trained, and why or why not."""

    run: Run
    trains: bool
    why: str
    #: None where nothing tells their number.
    steps_left: int | None = 0
    #: Which of the run's files is damaged and how, where the run is trained again for that.
    damage: str = ""
    #: GPU hours of the damaged run's training, or CPU hours of a run without a GPU; None where not recorded.
    hours: float | None = None


@dataclass(frozen=True)
class Plan:
    """What the next start of the study `name` will train and evaluate."""

    name: str
    #: The results folder, as the config has it.
    folder: str
    #: All runs, in the study's order.
    runs: list[PlannedRun]
    #: Arms whose runs are those of another arm, or were trained under another name.
    notes: list[str]
    #: Finished runs on disk that the study has no use for.
    unneeded: int
    estimate: Estimate
    evaluations: Evaluations
    #: What is wrong with answers that are evaluated again for that, by path from the results folder.
    damaged_answers: dict[str, str]
    #: Whether hours are those of GPUs.
    on_gpus: bool
    #: What the study was made to find out, and since when that is declared.
    primary: str = ""
    #: Files of answers that the study's own metrics score.
    scorings: int = 0
    #: Names of these metrics.
    metrics: tuple[str, ...] = ()
    #: The study's claims, and since when they are declared.
    claims: str = ""
    #: Which look of a sequential study is next, and which contrasts are open.
    looks: str = ""

    @property
    def training(self) -> list[PlannedRun]:
        """The runs that will be trained."""
        return [planned for planned in self.runs if planned.trains]


def plan_of(
    study: Study,
    history: History,
    present: Present,
    code_counts: bool = True,
    names: set[str] | None = None,
    evaluations: Iterable[Evaluation] = (),
    scorings: int = 0,
) -> Plan:
    """The plan of a study.

    Parameters
    ----------
    study, history, present : Study, History, Present
    code_counts : bool
        Whether runs that other code or inputs trained are trained again: not with `--rerun-triggers` without params.
    names : set of str, optional
        Runs to plan; default all.
    evaluations : iterable of Evaluation
        Those that the start makes.
    scorings : int
        Files of answers that the start has the study's own metrics score.
    """
    pace, damage = Pace(history), Damage(study)
    planner = _Planner(history, present, damage, code_counts, pace)
    runs = [planner.planned(run) for run in study.runs.values() if names is None or run.name in names]
    evaluations = list(evaluations)
    made = {evaluation.answers for evaluation in evaluations}
    damaged = damage.all_answers() if made else {}
    return Plan(
        name=study.config.name,
        folder=study.config.root,
        runs=runs,
        notes=_notes(study),
        unneeded=len(history.records.keys() - study.runs.keys()),
        estimate=pace.estimate((planned.run, planned.steps_left) for planned in runs if planned.trains),
        evaluations=estimated(study, evaluations, pace),
        damaged_answers={file: problem for file, problem in damaged.items() if file in made},
        on_gpus=study.config.launch.gpus > 0,
        primary=primary_line(study),
        scorings=scorings,
        metrics=(*study.config.evaluation.metrics,),
        claims=claims_line(study),
        looks=looks_line(study),
    )


@dataclass(frozen=True)
class _Planner:
    """Decides what becomes of each run; `not_there` has why nothing is there of a run, by the run's folder."""

    history: History
    present: Present
    damage: Damage
    code_counts: bool
    pace: Pace
    not_there: dict[str, str] = field(default_factory=dict)

    def planned(self, run: Run) -> PlannedRun:
        """The plan of one run."""
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
        if run.folder not in self.not_there:
            self.not_there[run.folder] = _why_new(run, self.history)
        return PlannedRun(run, True, self.not_there[run.folder], steps)


def goes_on(work: Interrupted, run: Run, present: Present) -> bool:
    """Whether unfinished work is of this run's spec, code and data; any other is wiped."""
    same_inputs = all(work.inputs.get(name) == digest for name, digest in present.inputs.items())
    same_spec = work.spec == {**run.arm_spec.content(), "seed": run.seed}
    same_code = work.code == run.code and of_checkpoints(work.modules) == present.checkpoint_modules(run)
    return same_spec and same_code and same_inputs


def _why_new(run: Run, history: History) -> str:
    """Why there is no result of a run: by the nearest earlier spec of the same arm."""
    if not history.arms:
        return "not trained yet"
    trained_as = arm_of(run.name)
    if any(name.startswith(f"{run.folder}/") for name in history.arms.get(trained_as, {})):
        return "new seed"
    after = run.arm_spec.content()
    earlier = {name.partition("/")[0]: record for name, record in history.arms.get(run.arm, {}).items()}
    told = [differences(record["spec"], after) for record in earlier.values() if isinstance(record.get("spec"), dict)]
    return ", ".join(sorted(told, key=len)[0]) if told else "new arm"


def _notes(study: Study) -> list[str]:
    """Arms that have no runs of their own name."""
    first: dict[str, str] = {}
    notes = []
    for arm, key in study.keys.items():
        trained_as = study.folders[key].rpartition("-")[0]
        if key in first:
            notes.append(f"arm {arm}: same runs as arm {first[key]}, their specs are equal")
        elif study.keys.get(trained_as) != key:
            notes.append(f"arm {arm}: its runs are those in runs/{study.folders[key]}, of the same spec")
        first.setdefault(key, arm)
    return notes


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Each difference of two specs without seeds, in words; weights first.

    >>> differences({"weights": {"format": 0.33}}, {"weights": {"format": 0.5}})
    ['format 0.33 → 0.5']
    """
    found = [(path[0] != "weights", _in_words(path, old, new)) for path, old, new in leaves(before, after)]
    return [text for _, text in sorted(dict.fromkeys(found), key=lambda item: item[0])]


def leaves(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Paths at which two values differ, with both; a component that one of them lacks is one difference."""
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
    """A value as a config has it; commit hashes by their first digits, long texts cut."""
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
