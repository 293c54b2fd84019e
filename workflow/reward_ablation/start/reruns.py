"""Has results made again that other code or other inputs made, whatever Snakemake's own records say.

Snakemake compares params with its records in `.snakemake/`. If these records are lost, or the results were moved to
another machine without them, a run that other code trained looks up to date to Snakemake. The run's own record says
what trained the run, and the record beside answers says what made the answers. If data or the base model are made
again with the same bytes, these records save the evaluations, which Snakemake alone would make again.

Damaged results are made again, too. Snakemake knows only `run.json` of a run's files, and does not check the sizes of
answers.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from functools import cached_property
from typing import Any

from snakemake.io import ancient
from snakemake.ioflags import before_update

from reward_ablation.start.damage import Damage, record_beside
from reward_ablation.start.evaluations import BASE_MODEL, Evaluation, evaluation_of
from reward_ablation.start.history import read_history, read_record
from reward_ablation.start.internals import (
    any_time,
    compare_no_input_sets,
    counts_params,
    force,
    ignore_marked_times,
    is_main,
    last_attempt,
    makes_files,
    wildcards_to_run,
)
from reward_ablation.start.plan import Plan, plan_of
from reward_ablation.start.stale import PresentInputs, are_stale, stale_because
from reward_ablation.study.run import Run
from reward_ablation.study.run_folder import DESCRIPTION, RECORD
from reward_ablation.study.study import Study
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.exit_status import is_permanent

#: How often one start tries a failed run again.
RETRIES = 3
#: Rules that make the inputs of all runs, with the names of these inputs.
INPUTS = {"fetch": "base model", "sft": "supervised start", "prepare_train": "training set"}


class Reruns:
    """Tells Snakemake, while it plans its jobs, which results must be made again.

    Its input functions are called by Snakemake: each returns the inputs of a job, and forces the job where needed.
    `workflow` is a `snakemake.workflow.Workflow`.
    """

    def __init__(self, workflow: Any, study: Study):
        self.workflow = workflow
        self.study = study
        self.folder = study.root / study.config.root / "runs"
        self.present = PresentInputs(study)
        ignore_marked_times()

    @cached_property
    def code_counts(self) -> bool:
        """Whether results of other code are made again.

        False with `--rerun-triggers` without `params`, by which a user keeps runs of older code on purpose.
        """
        return counts_params(self.workflow)

    @cached_property
    def runs_again(self) -> set[str]:
        """Names of the finished runs that are stale or damaged; empty in a process that Snakemake started for a job."""
        if not is_main(self.workflow):
            return set()
        damage = Damage(self.study)
        with one_line_errors():
            sound = (self.study.runs[name] for name in self.study.sound_runs)
            return {run.name for run in sound if self._is_trained_again(run, damage)}

    def _is_trained_again(self, run: Run, damage: Damage) -> bool:
        """Whether a run has a record and is stale or damaged."""
        record = read_record(self.folder / run.name)
        if not record:
            return record is not None
        stale = self.code_counts and stale_because(record, run, self.present) is not None
        return stale or damage.of_run(run.name, record) is not None

    @cached_property
    def answers_again(self) -> set[str]:
        """Files of answers that are made again; paths are relative to the results folder."""
        return self._damaged_answers | (self._stale_answers if self.code_counts else set())

    @cached_property
    def _damaged_answers(self) -> set[str]:
        """Damaged files of answers; empty in a process that Snakemake started for a job."""
        with one_line_errors():
            return set(Damage(self.study).all_answers()) if is_main(self.workflow) else set()

    @cached_property
    def _stale_answers(self) -> set[str]:
        """Files of stale answers; empty in a process that Snakemake started for a job."""
        root, damage = self.study.root / self.study.config.root, Damage(self.study)
        return {
            file
            for model in (("base", *self.study.runs) if is_main(self.workflow) else ())
            for file in damage.answer_files(model)
            if (record := read_record(root, record_beside(file)))
            and are_stale(record, model == "base", os.path.basename(file).split(".")[0], self.present)
        }

    def inputs_of_run(self, wildcards: Any) -> dict[str, str]:
        """Input function of a run: the model, the problems and the reward models. Forces a stale or damaged run."""
        files = {"model": self.study.model_file, "problems": self.study.problems_file}
        rewards = self.study.reward_model_files(wildcards.run).values()
        files |= {f"reward_model_{number}": file for number, file in enumerate(sorted(set(rewards)))}
        record = f"runs/{wildcards.run}/{RECORD}"
        return self._inputs(record, files, again=wildcards.run in self.runs_again)

    def inputs_of_answers(self, wildcards: Any) -> dict[str, Any]:
        """Input function of an evaluation: the base model, all problems, and the run's record if a run is evaluated.

        Forces stale or damaged answers, and those of an earlier training of the run, by the records beside them. Times
        of the inputs are no reason to make answers again.
        """
        self._inputs_are_not_compared_as_sets  # noqa: B018, in force from now on
        run, root = wildcards.get("run"), self.study.config.root
        answers = self.answer_files(run or BASE_MODEL)
        stale_or_damaged = [file for file in answers if file in self.answers_again]
        for file in stale_or_damaged:
            force(self.workflow, f"{root}/{file}")
        files = {
            "model": [f"{root}/{self.study.model_file}"],
            "problems": [f"{root}/data/evaluation/{dataset}.parquet" for dataset in self.study.datasets],
        }
        if not (stale_or_damaged or self.missing(answers)):
            files = self._staying(files) if run is None else {name: ancient(paths) for name, paths in files.items()}
        if run is None:
            return files
        record = any_time(f"{root}/runs/{run}/{RECORD}")
        return {"run": record, "model": ancient(files["model"]), "problems": files["problems"]}

    @cached_property
    def _inputs_are_not_compared_as_sets(self) -> None:
        """Stop Snakemake from comparing the set of inputs of an evaluation or a scoring with its own record of the set.

        All evaluation sets are inputs of one job. Without this, taking a set out of the study would have every run
        evaluated again. Scores of earlier versions have no run's record among their inputs.
        """
        compare_no_input_sets(self.workflow, ("evaluate", "evaluate_base", "score"))

    def answer_files(self, model: str) -> list[str]:
        """Files of a model's answers; paths are relative to the results folder."""
        return Damage(self.study).answer_files(model)

    def missing(self, files: list[str]) -> list[str]:
        """The files that do not exist; paths are relative to the results folder."""
        root = self.study.root / self.study.config.root
        return [file for file in files if not os.path.exists(root / file)]

    def inputs_of_scores(self, wildcards: Any) -> dict[str, str]:
        """Input function of a scoring: the answers to score, and the run's record if they are a run's.

        The answers are ancient where they and their scores stay: when Snakemake makes some answers of a run, it gives
        all of them a new time. An evaluation that replaces answers removes their scores, so scores that exist are of
        the answers that exist. Answers of a base model that this start fetches may be replaced. The run's record has
        the answers scored again that another training of the run gives.
        """
        self._inputs_are_not_compared_as_sets  # noqa: B018, in force from now on
        name = f"{wildcards.model}/{wildcards.dataset}{wildcards.kind}.parquet"
        answers, scores = f"{self.study.answers_folder}/{name}", f"{self.study.scores_folder}/{name}"
        folder = self.study.config.root
        path = f"{folder}/{answers}"
        again = answers in self.answers_again or wildcards.model in self.runs_again
        needed = [answers, scores, *([self.study.model_file] if wildcards.model == BASE_MODEL else [])]
        stay = not again and not self.missing(needed)
        files = {"answers": ancient(path) if stay else path}
        run = any_time(f"{folder}/runs/{wildcards.model}/{RECORD}")
        return files if wildcards.model == BASE_MODEL else {**files, "run": run}

    def options_of_evaluation(self, wildcards: Any, output: Any) -> str:
        """Options of the evaluation command. `output` is unused here: see `Study.options_of_run`."""
        share = self.study.config.launch.share
        scores = f"{self.study.config.root}/scores"
        options = {
            f" --scores {shlex.quote(scores)}": os.path.isdir(self.study.root / scores),
            " --kept": wildcards.get("run") in self.study.keeping_runs,
            " --any-code": not self.code_counts,
            f" --gpu-share {share:.6g}": share < 1,
        }
        return "".join(option for option, is_needed in options.items() if is_needed)

    def inputs_of_description(self, wildcards: Any) -> list[str]:
        """Input function of `study.json`: no inputs, except in a sequential study. Forces a file of another config.

        Snakemake may have no record of the file, because a start that trains writes the file before its first job, for
        the primary question. In a sequential study the file also records the looks. The next look is taken once all
        answers exist, whatever the file's time.
        """
        described = self.study.described
        is_outdated = bool(self.code_counts and described and described.get("digest") != self.study.digest)
        if is_main(self.workflow) and (is_outdated or self.study.look_is_due):
            force(self.workflow, f"{self.study.config.root}/{DESCRIPTION}")
        return [] if self.study.looks is None else self._inputs_of_look()

    def _inputs_of_look(self) -> list[str]:
        """Files that a look needs: records, answers and scores of all runs that did not diverge, and the problems."""
        study, models = self.study, ("base", *self.study.sound_runs)
        files = [f"runs/{run}/{RECORD}" for run in study.sound_runs]
        files += [f"{study.answers_folder}/{model}/{dataset}.parquet" for model in models for dataset in study.datasets]
        files += [f"data/evaluation/{dataset}.parquet" for dataset in study.datasets]
        return [f"{study.config.root}/{file}" for file in [*files, *study.scores]]

    @one_line_errors()
    def inputs_of_start(self, wildcards: Any) -> dict[str, str]:
        """Input function of the supervised start: the model and the demonstrations. Forces a start of other bytes."""
        files = {"model": self.study.fetched_file, "problems": str(self.study.demonstrations_file)}
        again = is_main(self.workflow) and self.present.start_changed
        return self._inputs(self.study.model_file, files, again=again)

    def _inputs(self, made: str, files: dict[str, str], again: bool) -> dict[str, str]:
        """Inputs of the result `made`, by name. Forces the result where it is made `again`.

        The paths given are relative to the results folder.
        """
        root = self.study.config.root
        paths = {name: f"{root}/{file}" for name, file in files.items()}
        if again:
            force(self.workflow, f"{root}/{made}")
        if again or not os.path.exists(self.study.root / root / made):
            return paths
        return {name: path for name, [path] in self._staying({name: [path] for name, path in paths.items()}).items()}

    def _staying(self, paths: dict[str, list[str]]) -> dict[str, list[str]]:
        """Mark the inputs of a result that stays: no reason to make the result again, and not traced to their jobs.

        Ancient inputs alone would not do. If a job has to run, Snakemake skips all jobs behind the job's ancient
        files, with everything that is missing, changed or forced there. A drawing of the rules shows these jobs.
        """
        ancient_paths = {name: ancient(files) for name, files in paths.items()}
        all_exist = all(os.path.exists(self.study.root / file) for files in paths.values() for file in files)
        if makes_files(self.workflow) and all_exist:
            return {name: before_update(files) for name, files in ancient_paths.items()}
        return ancient_paths

    @property
    def retries(self) -> int:
        """How often a run is started again after a signal, a time limit or too little GPU memory. The run then goes on.

        Only the main process starts a run again. A Snakemake in a cluster's job would do so in a job that is about to
        end.
        """
        return RETRIES if is_main(self.workflow) else 0

    def failed(self, job: Any, status: int) -> None:
        """Do not start a failed job again whose exit status says that the error stays until the user corrects it."""
        if is_permanent(status):
            last_attempt(job)

    @property
    def trains(self) -> bool:
        """Whether this start trains anything: a run, or the supervised start."""
        return any(wildcards_to_run(self.workflow, rule) for rule in ("train", "sft"))

    @property
    def describes(self) -> bool:
        """Whether a job of this start writes `study.json`."""
        return bool(wildcards_to_run(self.workflow, "describe"))

    def asked(self) -> set[str]:
        """Names of the runs that this start is about to train."""
        return {wildcards.run for wildcards in wildcards_to_run(self.workflow, "train")}

    def evaluations(self) -> list[Evaluation]:
        """The evaluations that this start is about to make."""
        models = [BASE_MODEL] * len(wildcards_to_run(self.workflow, "evaluate_base"))
        models += [wildcards.run for wildcards in wildcards_to_run(self.workflow, "evaluate")]
        to_train = self.asked()
        evaluations = []
        for model in models:
            files = self.answer_files(model)
            to_make = {*self.missing(files), *self.answers_again}
            some = [file for file in files if file in to_make]
            evaluations += [evaluation_of(file, model) for file in (files if model in to_train else some or files)]
        return evaluations

    def scorings(self) -> int:
        """Number of files of answers that this start is about to score by the study's own metrics."""
        return len(wildcards_to_run(self.workflow, "score"))

    def plan(self, names: set[str] | None = None) -> Plan:
        """What a start would train, of all runs or of those in `names`, and what it is about to evaluate and score.

        To be called once all jobs are planned.
        """
        history = read_history(self.folder, self.study.runs)
        judging = (self.evaluations(), self.scorings())
        plan = plan_of(self.study, history, self.present, self.code_counts, names, *judging)
        inputs = [name for rule, name in INPUTS.items() if wildcards_to_run(self.workflow, rule)]
        if inputs and any(history.records.get(planned.run.name) and not planned.trains for planned in plan.runs):
            note = f"{' and '.join(inputs)}: made again; if the bytes differ, the next start trains all runs again"
            return replace(plan, notes=[note, *plan.notes])
        return plan
