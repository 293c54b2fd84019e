"""Runs that other code or other inputs trained are trained again, whatever Snakemake's own records say.

Snakemake compares params with its records in `.snakemake/`. Where those are gone, or the results were moved to
another machine without them, a run that other code trained looks up to date to it. A run's own record says what
trained it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from snakemake.io import ancient

from reward_ablation.cluster.submission import leave_status
from reward_ablation.planning.history import read_history, read_record
from reward_ablation.planning.internals import counts_params, force, is_main, last_attempt, wildcards_to_run
from reward_ablation.planning.plan import Plan, plan_of
from reward_ablation.planning.stale import Present, stale_because
from reward_ablation.study.errors import one_line_errors
from reward_ablation.study.exit_status import is_permanent
from reward_ablation.study.run_folder import RECORD
from reward_ablation.study.study import Study

#: Of a run, in one start.
RETRIES = 3


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
        """Input function that adds no file: stale runs are forced, as by `--forcerun`, where the targets need them.

        Not in a job: what the main process has planned is to be trained.
        """
        with one_line_errors():
            if is_main(self.workflow) and self.code_counts and self.folder.is_dir():
                for run in self.study.runs.values():
                    record = read_record(self.folder / run.name)
                    if record is not None and stale_because(record, run, self.present):
                        force(self.workflow, f"{self.study.config.root}/runs/{run.name}/{RECORD}")
        return []

    def look_at_start(self, wildcards: Any) -> list[str]:
        """Input function that adds no file: a supervised start of another model or other demonstrations is forced.

        Of a job that the start needs, so that it is asked wherever the start is.
        """
        with one_line_errors():
            if is_main(self.workflow) and self.present.start_changed:
                force(self.workflow, f"{self.study.config.root}/{self.study.model_file}")
        return []

    def needed_by_run(self, file: str) -> Callable[[Any], str]:
        """Input function: a file below the results folder, ancient to a run that is trained.

        To one that is not it must not be: Snakemake does not look at whether the outputs of a job are there that has
        nothing but ancient inputs, and one of them is about to be made again.
        """
        path = f"{self.study.config.root}/{file}"

        def of_run(wildcards: Any) -> str:
            return ancient(path) if (self.folder / wildcards.run / RECORD).exists() else path

        return of_run

    def needed_by_start(self, file: str) -> Callable[[Any], str]:
        """Input function: the same for the supervised start, which a new evaluation set does not change."""
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

    def plan(self, names: set[str] | None = None) -> Plan:
        """What a start would train, of all runs or of these."""
        history = read_history(self.folder, self.study.runs)
        return plan_of(self.study, history, self.present, self.code_counts, names)
