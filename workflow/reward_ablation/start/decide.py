"""What the next start makes and what it keeps, by the study and the records on disk, each with one reason.

The plan, the status, the preview and the start itself read these decisions, and nothing else decides. Deciding needs no
Snakemake, and writes nothing. Snakemake's own records do not count, because they are lost when results are moved.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from reward_ablation.start.damage import Damage
from reward_ablation.start.differences import why_new
from reward_ablation.start.estimates import BASE_MODEL, Evaluation, Pace, evaluation_of
from reward_ablation.start.history import History, Interrupted, read_history, read_record
from reward_ablation.start.stale import PresentInputs, are_stale, stale_because
from reward_ablation.study.answers_record import record_beside
from reward_ablation.study.core_digest import checkpoint_code
from reward_ablation.study.standing import Standing, standing_of
from reward_ablation.study.study import Run, Study

DONE = "trained"
DAMAGED = "its files are damaged"
PUT_BACK = "trained, its run.json is put back"
DIVERGED = "diverged at step {}, left out; to train it again, delete its folder"
KEPT = "kept, as --any-code says"


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

    @property
    def has_job(self) -> bool:
        """Whether a start has a job for the run: it trains it, or puts back the record of a trained run."""
        return self.trains or self.why == PUT_BACK


class Decisions:
    """The decisions on a study, worked out on first use from the files as they are then.

    `code_counts` says whether results of other code or inputs are made again. It is False where the user keeps results
    of older code on purpose.
    """

    def __init__(self, study: Study, code_counts: bool = True):
        self.study = study
        self.code_counts = code_counts
        self.root = study.results
        self.present = PresentInputs(study)
        self.damage = Damage(study)

    @cached_property
    def history(self) -> History:
        """The runs on disk, of this study and of other configs."""
        return read_history(self.root / "runs", self.study.runs)

    @cached_property
    def standings(self) -> list[Standing | None]:
        """What stood declared when each of the study's runs began."""
        records = {**self.history.records, **self.history.set_aside}
        return [standing_of(records[name].get("attempts")) for name in self.study.runs if name in records]

    @cached_property
    def pace(self) -> Pace:
        """How long steps took in earlier runs, and how many steps runs have."""
        return Pace(self.history)

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        """The decision on each run of the study, by the run's name."""
        planner = _Planner(self)
        return {name: planner.planned(run) for name, run in self.study.runs.items()}

    @cached_property
    def finished_runs_again(self) -> set[str]:
        """Names of the runs that have a record and still a job: they are stale or damaged, or the record is broken."""
        return {name for name, each in self.runs.items() if each.has_job and name in self.history.records}

    @cached_property
    def answers_again(self) -> set[str]:
        """Files of answers that exist and are made again: damaged, stale, or of a run that is trained again.

        Paths are relative to the results folder.
        """
        again = set(self.damaged_answers)
        for model in self._models:
            files = [file for file in self.damage.answer_files(model) if self.exists(file)]
            again.update(file for file in files if self._trains(model) or (self.code_counts and self._is_stale(file)))
        return again

    @cached_property
    def damaged_answers(self) -> dict[str, str]:
        """What is wrong with each damaged file of answers."""
        return self.damage.all_answers()

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations that a start makes: answers that are missing, or made again."""
        return [evaluation for model in self._models for evaluation in self.evaluations_of(model)]

    def evaluations_of(self, model: str) -> list[Evaluation]:
        """The evaluations that a start makes of one model."""
        files = self.damage.answer_files(model)
        make = [file for file in files if file in self.answers_again or not self.exists(file)]
        return [evaluation_of(file, model) for file in make]

    @cached_property
    def scorings(self) -> list[str]:
        """Files of scores by the study's own metrics that a start makes: missing, of new answers, or by other code."""
        new = {evaluation.answers.partition("/")[2].partition("/")[2] for evaluation in self.evaluations}
        return [file for file in self.study.scores if file.split("/", 2)[2] in new or self._lacks_scores(file)]

    def _lacks_scores(self, file: str) -> bool:
        """Whether a file of scores is missing, or other code made it."""
        return not self.exists(file) or (self.code_counts and self.present.scored_otherwise(file))

    @cached_property
    def inputs(self) -> dict[str, str]:
        """What each input of runs and evaluations is, by its file."""
        study = self.study
        inputs = {study.fetched_file: "base model", study.problems_file: "training set"}
        if study.demonstrations_file:
            inputs |= {study.model_file: "supervised start", study.demonstrations_file: "demonstrations"}
        inputs |= {file: f"evaluation set {name}" for file, name in self._evaluation_sets.items()}
        return inputs | dict.fromkeys(study.fetched_reward_models, "reward model")

    @cached_property
    def inputs_to_make(self) -> set[str]:
        """The files of these inputs that a start makes: they are missing, or other code or other inputs made them."""
        study, present = self.study, self.present
        make = {file for file in self.inputs if not self.exists(file)}
        held_apart = {file for file in (study.problems_file, study.demonstrations_file) if file}
        if self.code_counts:
            make |= {file for file in {*self._evaluation_sets, *held_apart} if present.prepared_otherwise(file)}
            if study.demonstrations_file and present.taught_otherwise:
                make.add(study.model_file)
        # A new evaluation set may share questions with the sets to train on.
        new = bool(make & self._evaluation_sets.keys())
        make |= {file for file in held_apart if new or present.shares_unknown_sets(file)}
        return make | ({study.model_file} if present.start_changed else set())

    @cached_property
    def _evaluation_sets(self) -> dict[str, str]:
        return dict(zip(self.study.evaluation_files, self.study.datasets, strict=True))

    def exists(self, file: str) -> bool:
        """Whether a file is there; the path is relative to the results folder."""
        return os.path.exists(f"{self.root}/{file}")

    @cached_property
    def _models(self) -> list[str]:
        return [BASE_MODEL, *self.study.sound_runs]

    def _trains(self, model: str) -> bool:
        return model in self.runs and self.runs[model].trains

    def _is_stale(self, file: str) -> bool:
        """Whether other code, problems or another base model than today's made a file of answers."""
        record = read_record(self.root, record_beside(file))
        of_base, dataset = f"/{BASE_MODEL}/" in file, os.path.basename(file).split(".")[0]
        if not record or are_stale(record, of_base, dataset, self.present):
            return bool(record)
        # A model that is not fetched yet has no bytes to compare, but its folder's name has its content.
        models = [os.path.basename(os.path.dirname(self.study.model_file))]
        return of_base and not self.exists(self.study.model_file) and record.get("models", models) != models


class _Planner:
    """Decides for each run whether it is trained, and why."""

    def __init__(self, decisions: Decisions):
        self.history = decisions.history
        self.present = decisions.present
        self.damage = decisions.damage
        self.code_counts = decisions.code_counts
        self.pace = decisions.pace
        self.diverged = decisions.study.diverged
        #: Why there is no result of a run, by the arm's folder. All seeds of an arm have the same reason.
        self.reasons_if_new: dict[str, str] = {}

    def planned(self, run: Run) -> PlannedRun:
        """The decision on one run."""
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
        return self._unfinished(run, steps) or PlannedRun(run, True, self._why_new(run), steps)

    def _unfinished(self, run: Run, steps: int | None) -> PlannedRun | None:
        """The decision on a run whose training was interrupted or goes on; None where there is no such work."""
        work = self.history.interrupted.get(run.name)
        if work is not None and goes_on(work, run, self.present) and (work.step or work.running):
            at = f"at step {work.step}{f' of {steps}' if steps else ''}"
            why = f"is being trained now, {at}" if work.running else f"interrupted {at}, goes on from there"
            return PlannedRun(run, True, why, None if steps is None else max(steps - work.step, 0))
        if work is not None and work.step:
            why = f"interrupted at step {work.step} under other code or data, begins anew"
            return PlannedRun(run, True, why, steps)
        return None

    def _why_new(self, run: Run) -> str:
        if run.folder not in self.reasons_if_new:
            self.reasons_if_new[run.folder] = why_new(run, self.history)
        return self.reasons_if_new[run.folder]


def goes_on(work: Interrupted, run: Run, present: PresentInputs) -> bool:
    """Whether unfinished work has this run's spec, code and data. Training deletes any other work and starts anew."""
    same_inputs = all(work.inputs.get(name) == digest for name, digest in present.inputs.items())
    same_spec = work.spec == {**run.arm_spec.content(), "seed": run.seed}
    same_code = work.code == run.code and checkpoint_code(work.modules) == present.checkpoint_code(run)
    return same_spec and same_code and same_inputs
