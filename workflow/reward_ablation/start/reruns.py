"""Results that other code or other inputs made are made again, whatever Snakemake's own records say.

Snakemake compares params with its records in `.snakemake/`. Where those are gone, or the results were moved to
another machine without them, a run that other code trained looks up to date to Snakemake. The run's own record says
what trained the run, and the record beside answers says what made the answers. Where data or the base model are made
again with the same bytes, these records save the evaluations, which Snakemake alone would make again.

Damaged results are made again, too: Snakemake knows of a run's files only `run.json`, and does not look at the sizes
of answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from snakemake.io import ancient

from reward_ablation.cluster.submission import leave_status
from reward_ablation.start.damage import Damage, record_beside
from reward_ablation.start.evaluations import RULES, Evaluation, evaluation_of
from reward_ablation.start.history import read_history, read_record
from reward_ablation.start.internals import counts_params, force, is_main, last_attempt, per_job, wildcards_to_run
from reward_ablation.start.plan import Plan, plan_of
from reward_ablation.start.stale import Present, are_stale, stale_because
from reward_ablation.study.run_folder import RECORD
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.exit_status import is_permanent

#: Of a run, in one start.
RETRIES = 3
#: Rules that make what all runs are trained on.
INPUTS = {"fetch": "base model", "sft": "supervised start", "prepare_train": "training set"}


class Reruns:
    """Tells Snakemake, while it plans its jobs, which runs must be trained again.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
    study : Study
    """

    def __init__(self, workflow: Any, study: Study):
        self.workflow = workflow
        self.study = study
        self.folder = study.root / study.config.root / "runs"
        self.present = Present(study)

    @cached_property
    def code_counts(self) -> bool:
        """Not with `--rerun-triggers` that leave params out: that is how runs of older code are kept on purpose."""
        return counts_params(self.workflow)

    def look(self, wildcards: Any) -> list[str]:
        """Input function that adds no file: stale runs, and stale or damaged answers, are forced, as by `--forcerun`.

        Where the targets need them, and not in a job: what the main process has planned is to be made.
        """
        root = self.study.config.root
        for file in {f"runs/{name}/{RECORD}" for name in self.runs_again} | self.answers_again:
            force(self.workflow, f"{root}/{file}")
        return []

    @cached_property
    def runs_again(self) -> set[str]:
        """Names of the finished runs that are stale or damaged, to the process that plans."""
        if not is_main(self.workflow):
            return set()
        damage = Damage(self.study)
        with one_line_errors():
            return {run.name for run in self.study.runs.values() if self._is_trained_again(run, damage)}

    def _is_trained_again(self, run: Run, damage: Damage) -> bool:
        """Whether a run has a record and is stale or damaged."""
        record = read_record(self.folder / run.name)
        if not record:
            return record is not None
        stale = self.code_counts and stale_because(record, run, self.present) is not None
        return stale or damage.of_run(run.name, record) is not None

    @cached_property
    def answers_again(self) -> set[str]:
        """Answers that are made again, by path from the results folder."""
        return self._damaged_answers | (self._stale_answers if self.code_counts else set())

    @cached_property
    def _damaged_answers(self) -> set[str]:
        """Damaged files of answers, to the process that plans."""
        with one_line_errors():
            return set(Damage(self.study).all_answers()) if is_main(self.workflow) else set()

    @cached_property
    def _stale_answers(self) -> set[str]:
        """Files of stale answers, to the process that plans."""
        root, damage = self.study.root / self.study.config.root, Damage(self.study)
        return {
            file
            for model in (("base", *self.study.runs) if is_main(self.workflow) else ())
            for file in damage.answer_files(model)
            if (record := read_record(root, record_beside(file)))
            and are_stale(record, model == "base", os.path.basename(file).split(".")[0], self.present)
        }

    def look_at_start(self, wildcards: Any) -> list[str]:
        """Input function that adds no file: a supervised start of another model or other demonstrations is forced.

        Of a job that the start needs, so that it is asked wherever the start is.
        """
        with one_line_errors():
            if is_main(self.workflow) and self.present.start_changed:
                force(self.workflow, f"{self.study.config.root}/{self.study.model_file}")
        return []

    def inputs_of_run(self, wildcards: Any) -> dict[str, str]:
        """Input function: the model and the problems of a run, ancient where the run is trained and stays as it is.

        Ancient inputs never make a trained run start again. Where a job is to run, Snakemake looks at none of the jobs
        behind its ancient files: neither at missing outputs nor at what is forced. So a run that is to be trained must
        not have ancient inputs.
        """
        root = self.study.config.root
        files = {"model": f"{root}/{self.study.model_file}", "problems": f"{root}/{self.study.problems_file}"}
        if wildcards.run in self.runs_again or not os.path.exists(f"{self.folder}/{wildcards.run}/{RECORD}"):
            return files
        return {name: ancient(file) for name, file in files.items()}

    def inputs_of_base_answers(self, wildcards: Any) -> dict[str, str]:
        """Input function: the base model and the problems, ancient where their answers stay as they are.

        The answers' record says whether they are of this model and these problems.
        """
        root = self.study.config.root
        answers = f"{self.study.answers_folder}/base/{wildcards.dataset}.parquet"
        problems = f"{root}/data/evaluation/{wildcards.dataset}.parquet"
        files = {"model": f"{root}/{self.study.model_file}", "problems": problems}
        if answers in self.answers_again or not (self.study.root / root / answers).exists():
            return files
        return {name: ancient(file) for name, file in files.items()}

    def problems_of_answers(self, kind: str = "") -> str | Callable[[Any], str]:
        """Input of an evaluation: the problems, ancient where the answers stay as they are.

        No function where all answers stay: Snakemake would ask the function for each job.

        Parameters
        ----------
        kind : str
            `.steps` for answers of the models that a run kept.
        """
        problems = f"{self.study.config.root}/data/evaluation/{{dataset}}.parquet"
        if not self._damaged_answers | self._stale_answers:  # which triggers count is not known yet
            return ancient(problems)

        def of_run(wildcards: Any) -> str:
            answers = f"{self.study.answers_folder}/{wildcards.run}/{wildcards.dataset}{kind}.parquet"
            file = problems.format(dataset=wildcards.dataset)
            return file if answers in self.answers_again else ancient(file)

        return per_job(of_run)

    def needed_by_start(self, file: str) -> Callable[[Any], str]:
        """Input function: a file of the supervised start, ancient once the start is made of what is there.

        A new evaluation set does not change the start.
        """
        path = f"{self.study.config.root}/{file}"
        made = self.study.root / self.study.config.root / self.study.model_file

        def of_start(wildcards: Any) -> str:
            return ancient(path) if made.exists() and not self.present.start_changed else path

        return of_start

    @property
    def retries(self) -> int:
        """How often a run is started again after a signal, a time limit or too little GPU memory: the run goes on.

        By the main process alone. The Snakemake in a cluster's job would do so too, in a job that is about to end.
        """
        return RETRIES if is_main(self.workflow) else 0

    def failed(self, job: Any, status: int) -> None:
        """Have a job whose error stays until the user mends the error not started again.

        In a cluster's job the exit status is left for the main process, which decides.
        """
        if not is_main(self.workflow):
            leave_status(status)
        elif is_permanent(status):
            last_attempt(job)

    @property
    def trains(self) -> bool:
        """Whether this start trains anything: a run, or their supervised start."""
        return any(wildcards_to_run(self.workflow, rule) for rule in ("train", "sft"))

    def asked(self) -> set[str]:
        """Names of the runs that this start is about to train."""
        return {wildcards.run for wildcards in wildcards_to_run(self.workflow, "train")}

    def evaluations(self) -> list[Evaluation]:
        """What this start is about to evaluate."""
        return [
            evaluation_of(self.study, rule, wildcards)
            for rule in RULES
            for wildcards in wildcards_to_run(self.workflow, rule)
        ]

    def plan(self, names: set[str] | None = None) -> Plan:
        """What a start would train, of all runs or of these, and what Snakemake is about to evaluate.

        To be called once all jobs are planned.
        """
        history = read_history(self.folder, self.study.runs)
        plan = plan_of(self.study, history, self.present, self.code_counts, names, self.evaluations())
        inputs = [what for rule, what in INPUTS.items() if wildcards_to_run(self.workflow, rule)]
        if inputs and any(history.records.get(planned.run.name) and not planned.trains for planned in plan.runs):
            note = f"{' and '.join(inputs)}: made again; should the bytes differ, the next start trains all runs again"
            return replace(plan, notes=[note, *plan.notes])
        return plan
