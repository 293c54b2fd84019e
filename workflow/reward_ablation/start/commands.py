"""`snakemake plan`, `status`, `verify` and `prune`: targets that print and end Snakemake before it starts any job.

They are input functions, which Snakemake calls while it makes the jobs of its targets: before it takes its lock, so
that they can be asked while a study runs, and before it asks for any machine. `plan` prints after Snakemake has made
all jobs of a whole start, since only Snakemake knows which of them it would run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from reward_ablation.cluster.site import read_site
from reward_ablation.start.internals import inputs_of, once_planned, runs_here, site_file, targets
from reward_ablation.start.memory import memory_lines
from reward_ablation.start.plan_text import damage_lines, plan_text, summary
from reward_ablation.start.prune import delete, prune_text, unneeded
from reward_ablation.start.reruns import Reruns
from reward_ablation.start.results_folder import ResultsFolder
from reward_ablation.start.status import ask_slurm, read_status
from reward_ablation.start.status_text import status_text
from reward_ablation.start.verify import Verification
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError, one_line_errors


class Commands:
    """The targets that make no file.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
    study : Study
    reruns : Reruns
    results_folder : ResultsFolder
        Is claimed before anything is deleted.
    """

    def __init__(self, workflow: Any, study: Study, reruns: Reruns, results_folder: ResultsFolder):
        self.workflow = workflow
        self.study = study
        self.reruns = reruns
        self.results_folder = results_folder

    def plan(self, wildcards: Any) -> list[str]:
        """The files that the target `all` asks for: what a start makes of them is printed once Snakemake knows it."""
        with one_line_errors():
            self._alone("plan", set())
            once_planned(self.workflow, self._print_plan)
            return inputs_of(self.workflow, "all")

    def _print_plan(self) -> NoReturn:
        """Print what a start would train and evaluate, and end."""
        with one_line_errors():
            plan, site = self.reruns.plan(), site_file(self.workflow)
            runs = [planned.run for planned in plan.training]
            memory = memory_lines(self.study, runs, runs_here(self.workflow), read_site(site) if site else None)
            print(plan_text(plan, memory))
        _end()

    def status(self, wildcards: Any) -> NoReturn:
        """Print where each run is, and end."""
        with one_line_errors():
            self._alone("status", set())
            jobs, silent = ask_slurm()
            found = read_status(self.study, self.reruns.present, jobs, self.reruns.code_counts)
            print(status_text(found, silent))
        _end()

    def verify(self, wildcards: Any) -> NoReturn:
        """Read all files that are on record again, print which are damaged, and end; with status 1 where any is."""
        with one_line_errors():
            self._alone("verify", set())
            verification = Verification(self.study)
            verification.run(partial(print, flush=True), partial(print, file=sys.stderr, flush=True))
        _end(1 if verification.damaged else 0)

    def prune(self, wildcards: Any) -> NoReturn:
        """Print what the study does not need, delete it where the target `delete` stands beside, and end."""
        with one_line_errors():
            asked = self._alone("prune", {"delete"})
            root = self.study.root / self.study.config.root
            found = unneeded(self.study)
            if "delete" not in asked or not found:
                print(prune_text(self.study, found, deleted=False))
                _end()
            with self.results_folder.claim():
                print(prune_text(self.study, found, deleted=True))
                for leftover in found:
                    if kept_because := delete(leftover, root):
                        print(f"kept: {leftover.path.relative_to(self.study.root)}: {kept_because}")
        _end()

    def delete(self, wildcards: Any) -> NoReturn:
        """What `snakemake prune delete` says beside `prune`; alone it is refused."""
        with one_line_errors():
            if "prune" not in targets(self.workflow):
                raise StudyError("delete: of what? `snakemake prune` lists it, `snakemake prune delete` deletes that")
        self.prune(wildcards)

    def announce(self, tell: Callable[[str], None]) -> None:
        """Tell what this start trains and evaluates, in a line, and what is damaged; nothing where it does neither."""
        with one_line_errors():
            asked = self.reruns.asked()
            if not asked and not self.reruns.evaluations():
                return
            plan = self.reruns.plan(asked)
        for line in damage_lines(plan):
            tell(line)
        # Runs that are forced by hand, and those whose records only are put back, are not in the plan.
        if plan.training or plan.evaluations.total:
            tell(summary(plan))

    def _alone(self, command: str, beside: set[str]) -> set[str]:
        asked = targets(self.workflow)
        others = sorted(asked - {command} - beside)
        if others:
            raise StudyError(f"{command}: makes nothing, and {others[0]} does; start one after the other")
        return asked


def _end(status: int = 0) -> NoReturn:
    sys.stdout.flush()
    sys.exit(status)
