"""Input functions by which Snakemake makes what `decide` decided, and holds still what stays.

The Snakefile makes one `Reruns`, and the rules take their input functions from it. Snakemake compares params, inputs
and file times with its records in `.snakemake/`. For runs and answers these count for nothing here, nor for models,
data and scores: the records that lie beside the results decide, wherever the results were moved. Tables and figures,
which take seconds, are left to Snakemake.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from snakemake.io import ancient
from snakemake.ioflags import before_update

from reward_ablation.start.decide import Decisions
from reward_ablation.start.declarations import Declarations
from reward_ablation.start.estimates import BASE_MODEL, evaluation_of
from reward_ablation.start.full_check import Work
from reward_ablation.start.internals import (
    compare_no_records,
    counts_params,
    force,
    is_dry_run,
    is_main,
    jobs_to_submit,
    last_attempt,
    limit,
    needed_jobs,
    shows_all_jobs,
    start_no_more_jobs,
)
from reward_ablation.start.plan import damage_lines, inputs_lines, plan_of, summary
from reward_ablation.study.run_folder import DESCRIPTION, RECORD, evaluation_file
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.exit_status import is_permanent
from reward_ablation.system.gpus import gpus_here

#: How often one start tries a failed run or supervised start again.
RETRIES = 3
#: Rules that prepare a start. If one fails, no further job is started.
PREPARATIONS = ("fetch", "fetch_reward_model", "prepare_evaluation", "prepare_train", "prepare_sft", "sft")
#: Rules whose results Snakemake's own records say nothing about.
DECIDED = (*PREPARATIONS, "train", "evaluate", "evaluate_base", "score")
#: Rules of `DECIDED` whose outputs appear whole, and last. They may come from a job that has outlived its Snakemake.
WHOLE = ("fetch", "fetch_reward_model", "sft", "train", "evaluate", "evaluate_base")


class Reruns:
    """Tells Snakemake, while it plans its jobs, which results must be made again: input functions that force jobs.

    In a process that Snakemake started for one job, nothing is forced: that job was decided on already.
    """

    def __init__(self, workflow: Any, study: Study):
        self.workflow = workflow
        self.study = study
        self.is_main = is_main(workflow)

    @cached_property
    def code_counts(self) -> bool:
        """Whether results of other code are made again; not with `--rerun-triggers` without `params`."""
        return counts_params(self.workflow)

    @cached_property
    def decisions(self) -> Decisions:
        """What this start makes and keeps, of the whole study. From now on no record of Snakemake's own counts."""
        if self.is_main:
            compare_no_records(self.workflow, DECIDED, WHOLE)
        return Decisions(self.study, self.code_counts)

    def inputs_of_run(self, wildcards: Any) -> dict[str, list[str]]:
        """Input function of a run: the model, the problems and the reward models. Forces a stale or damaged run."""
        files = {"model": [self.study.model_file], "problems": [self.study.problems_file]}
        rewards = sorted({*self.study.runs[wildcards.run].reward_models})
        files |= {f"reward_model_{number}": [file] for number, file in enumerate(rewards)}
        with one_line_errors():
            again = self.is_main and wildcards.run in self.decisions.finished_runs_again
        return self._inputs(f"runs/{wildcards.run}/{RECORD}", files, again)

    def inputs_of_answers(self, wildcards: Any) -> dict[str, list[str]]:
        """Input function of an evaluation: model, problems, a run's record. Forces answers that are made again."""
        run = wildcards.get("run")
        files = {"model": [self.study.model_file], "problems": self.study.evaluation_files}
        if run is not None:
            files["run"] = [f"runs/{run}/{RECORD}"]
        with one_line_errors():
            make = [each.answers for each in self.decisions.evaluations_of(run or BASE_MODEL)] if self.is_main else []
            for file in make:
                self._force(file)
        return self._below_root(files) if make or not self.is_main else self._staying(files)

    def inputs_of_scores(self, wildcards: Any) -> dict[str, list[str]]:
        """Input function of a scoring: answers, their run's record, problems, models. New answers remove old scores."""
        name = f"{wildcards.model}/{wildcards.dataset}{wildcards.kind}.parquet"
        files = {"answers": [f"{self.study.answers_folder}/{name}"], "problems": [evaluation_file(wildcards.dataset)]}
        files["reward_models"] = self.study.scoring.model_files
        if wildcards.model != BASE_MODEL:
            files["run"] = [f"runs/{wildcards.model}/{RECORD}"]
        scores = f"{self.study.scores_folder}/{name}"
        with one_line_errors():
            again = self.is_main and scores in self._scorings
        return self._inputs(scores, files, again)

    @cached_property
    def _scorings(self) -> set[str]:
        return set(self.decisions.scorings)

    def options_of_evaluation(self, wildcards: Any) -> str:
        scores = f"{self.study.config.root}/scores"
        options = {
            f" --scores {shlex.quote(scores)}": os.path.isdir(self.study.root / scores),
            " --kept": wildcards.get("run") in self.study.keeping_runs,
            " --any-code": not self.code_counts,
        }
        return "".join(option for option, is_needed in options.items() if is_needed)

    def inputs_of_description(self, wildcards: Any) -> list[str]:
        """Input function of `study.json`: what a look needs, if any. Forces a file of another config, or a look's.

        Snakemake may have no record of the file, because a start that trains writes it before its first job.
        """
        described = self.study.described
        is_outdated = bool(self.code_counts and described and described.get("digest") != self.study.digest)
        if self.is_main and (is_outdated or Declarations(self.study).look_is_due):
            force(self.workflow, f"{self.study.config.root}/{DESCRIPTION}")
        return [] if self.study.looks is None else self._inputs_of_look()

    def _inputs_of_look(self) -> list[str]:
        """Files that a look needs: records, answers and scores of all runs that did not diverge, and the problems."""
        study, models = self.study, ("base", *self.study.sound_runs)
        files = [f"runs/{run}/{RECORD}" for run in study.sound_runs]
        files += [f"{study.answers_folder}/{model}/{dataset}.parquet" for model in models for dataset in study.datasets]
        return [f"{study.config.root}/{file}" for file in [*files, *self.study.evaluation_files, *study.scores]]

    def inputs_of(self, made: str, **files: list[str]) -> Callable[[Any], dict[str, list[str]]]:
        """Input function of the model or set of problems `made`, which may have wildcards. Forces what changed."""

        def inputs(wildcards: Any) -> dict[str, list[str]]:
            file = made.format_map(dict(wildcards.items()))
            with one_line_errors():
                return self._inputs(file, files, again=self.is_main and file in self.decisions.inputs_to_make)

        return inputs

    def _inputs(self, made: str, files: dict[str, list[str]], again: bool) -> dict[str, list[str]]:
        """Inputs of the result `made`, by name. Forces the result if it exists and is made `again`."""
        if again:
            self._force(made)
        return self._below_root(files) if again or not self.decisions.exists(made) else self._staying(files)

    def _force(self, file: str) -> None:
        if self.decisions.exists(file):
            force(self.workflow, f"{self.study.config.root}/{file}")

    def _below_root(self, files: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: [f"{self.study.config.root}/{file}" for file in each] for name, each in files.items()}

    def _staying(self, files: dict[str, list[str]]) -> dict[str, list[str]]:
        """Mark the inputs of a result that stays: no reason to make the result again, and not traced to their jobs."""
        # Ancient inputs alone would not do: if a job has to run, Snakemake skips all jobs behind its ancient files,
        # with all that is missing, changed or forced there. Missing inputs are left out: their jobs would run this one.
        # For reports and rule graphs the inputs are only ancient, so the graph still shows these jobs.
        paths = self._below_root(files)
        if shows_all_jobs(self.workflow):
            return {name: ancient(each) for name, each in paths.items()}
        there = {
            name: [path for path in each if os.path.exists(self.study.root / path)] for name, each in paths.items()
        }
        return {name: before_update(ancient(each)) for name, each in there.items() if each}

    @property
    def retries(self) -> int:
        """How often a run or supervised start goes on after a signal, a time limit or too little GPU memory.

        Not by a Snakemake in a cluster's job: that job is about to end.
        """
        return RETRIES if self.is_main else 0

    def failed(self, job: Any, status: int) -> None:
        """Start no job again that the user must correct, and nothing more without a model or a set of problems."""
        if is_permanent(status):
            last_attempt(job)
        if job.rule.name in PREPARATIONS and job.attempt > job.restart_times:
            start_no_more_jobs(self.workflow)

    @cached_property
    def jobs(self) -> dict[str, list[Any]]:
        """Wildcards of the jobs that are about to run, by rule; to be read once all jobs are planned, as all below."""
        jobs: dict[str, list[Any]] = {}
        for job in needed_jobs(self.workflow):
            jobs.setdefault(job.rule.name, []).append(job.wildcards)
        return jobs

    @property
    def work(self) -> Work:
        """What this start is about to do. The Slurm executor checks its own jobs, so that no site is given."""
        return Work(
            runs=frozenset(self._runs),
            trains=bool({"train", "sft"} & self.jobs.keys()),
            evaluates=bool({"evaluate", "evaluate_base"} & self.jobs.keys()),
            scores="score" in self.jobs,
            makes=frozenset(self._made),
            code_counts=self.code_counts,
            submits=self.submits,
            site=None,
        )

    @property
    def submits(self) -> bool:
        return bool(jobs_to_submit(self.workflow))

    @property
    def _runs(self) -> set[str]:
        return {wildcards.run for wildcards in self.jobs.get("train", ())}

    @property
    def _made(self) -> set[str]:
        """Inputs of runs and evaluations that are about to be made, but for reward models."""
        study = self.study
        files = {"fetch": study.fetched_file, "prepare_train": study.problems_file, "sft": study.model_file}
        files["prepare_sft"] = str(study.demonstrations_file)
        made = {file for rule, file in files.items() if rule in self.jobs}
        return made | {evaluation_file(each.dataset) for each in self.jobs.get("prepare_evaluation", ())}

    @one_line_errors()
    def announce(self, tell: Callable[[str], None]) -> None:
        """Tell in a line what this start trains, evaluates and scores, and before it what is damaged, if anything."""
        models = [BASE_MODEL] * ("evaluate_base" in self.jobs)
        models += [wildcards.run for wildcards in self.jobs.get("evaluate", ())]
        evaluations = []
        for model in models:  # a model that the decisions keep was forced by the user
            forced = [evaluation_of(file, model) for file in self.decisions.damage.answer_files(model)]
            evaluations += self.decisions.evaluations_of(model) or forced
        scorings = len(self.jobs.get("score", ()))
        if not self._runs and not evaluations and not scorings and not self._made:
            return
        plan = plan_of(self.decisions, self._runs, evaluations, scorings, self._made)
        for line in damage_lines(plan):
            tell(line)
        # The plan lacks runs that the user forced, and runs that only get their record back.
        if plan.training or plan.evaluations.total or plan.scorings:
            tell(summary(plan))
        for line in inputs_lines(plan):
            tell(line)


def share_gpus(workflow: Any) -> None:
    """Start at most as many jobs at once as this machine has GPUs for; not in a dry run, which needs none."""
    if is_main(workflow) and not is_dry_run(workflow):
        with suppress(StudyError):
            limit(workflow, "gpu", len(gpus_here()))
