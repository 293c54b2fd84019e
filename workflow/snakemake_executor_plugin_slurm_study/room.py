"""Checks whether the file system has room for the training to come."""

from __future__ import annotations

from threading import Lock
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from reward_ablation.cluster.preflight import no_room
from reward_ablation.start.internals import needed_jobs
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError


class Room:
    """Stops Snakemake before the first submission if the disk has too little room.

    The check cannot come earlier, because the model's size decides how much is needed, and this start may just have
    fetched the model.
    """

    def __init__(self, workflow: Any, study: Study) -> None:
        self.workflow = workflow
        self.study = study
        self._lock, self._checked = Lock(), False
        self._problem: str | None = None

    def check(self) -> None:
        """Raise a StudyError if there is too little room."""
        with self._lock:  # two threads submit jobs
            if not self._checked:
                self._checked = True
                self._problem = self._no_room()
                if self._problem:
                    self.workflow.scheduler.executor_error_callback(WorkflowError(self._problem))
        if self._problem:
            raise StudyError(self._problem)

    def _no_room(self) -> str | None:
        study = self.study
        results = study.root / study.config.root
        runs = [job.wildcards.run for job in needed_jobs(self.workflow) if job.rule.name == "train"]
        specs = {run: study.runs[run].arm_spec for run in runs if run in study.runs}
        return no_room((results / study.model_file).parent, results, specs, self.workflow.nodes)
