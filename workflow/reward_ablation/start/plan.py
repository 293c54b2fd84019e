"""The plan: what the next start trains, evaluates and scores, and why, with an estimate of the hours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reward_ablation.start.decide import Decisions, PlannedRun
from reward_ablation.start.estimates import Estimate
from reward_ablation.start.evaluations import BASE_MODEL, Evaluation, Evaluations, estimate_evaluations
from reward_ablation.start.looks import looks_line
from reward_ablation.start.primary_question import claims_line, primary_line
from reward_ablation.study.standing import standing_of
from reward_ablation.study.study import Study


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
    #: What is made of the inputs of runs, where finished runs stay; and of the evaluation sets that have answers.
    inputs: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    #: A line with the next look of a sequential study, and the open contrasts; empty without looks.
    looks: str = ""

    @property
    def training(self) -> list[PlannedRun]:
        """The runs that will be trained."""
        return [planned for planned in self.runs if planned.trains]


def plan_of(
    decisions: Decisions,
    names: set[str] | None = None,
    evaluations: Iterable[Evaluation] | None = None,
    scorings: int | None = None,
    inputs: set[str] | None = None,
) -> Plan:
    """The plan of a whole start.

    A start that makes only some files gives the names of the runs, the evaluations, the number of scorings and the
    files of inputs that it asks for.
    """
    study, history, pace = decisions.study, decisions.history, decisions.pace
    runs = [planned for name, planned in decisions.runs.items() if names is None or name in names]
    evaluations = decisions.evaluations if evaluations is None else list(evaluations)
    to_make = {evaluation.answers for evaluation in evaluations}
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
        damaged_answers={file: what for file, what in decisions.damaged_answers.items() if file in to_make}
        if to_make
        else {},
        on_gpus=study.config.launch.gpus > 0,
        primary=primary_line(study, began),
        scorings=len(decisions.scorings) if scorings is None else scorings,
        metrics=(*study.config.evaluation.metrics,),
        claims=claims_line(study, began),
        looks=looks_line(study, began),
        **_inputs(decisions, decisions.inputs_to_make if inputs is None else inputs),
    )


def _inputs(decisions: Decisions, made: set[str]) -> dict[str, tuple[str, ...]]:
    """Which of the inputs that are made had results before, which other bytes would make stale."""
    study = decisions.study
    stays = any(not each.has_job and not each.diverged for each in decisions.runs.values())
    of_runs = (study.fetched_file, *study.trained_on) if stays else ()
    sets = [name for name in study.datasets if decisions.exists(f"{study.answers_folder}/{BASE_MODEL}/{name}.parquet")]
    return {
        "inputs": tuple(decisions.inputs[file] for file in dict.fromkeys(of_runs) if file in made),
        "sets": tuple(name for name in sets if f"data/evaluation/{name}.parquet" in made),
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
