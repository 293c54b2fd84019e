"""Targets that end before any job: `plan`, `status`, `preview`, `power`, `budget`, `suggest`, `verify` and `prune`.

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
from reward_ablation.start.command_keys import CommandKeys
from reward_ablation.start.finished import finished_part
from reward_ablation.start.internals import inputs_of, once_planned, runs_here, site_file, targets
from reward_ablation.start.memory import memory_lines
from reward_ablation.start.plan_text import damage_lines, plan_text, summary
from reward_ablation.start.preview import Preview
from reward_ablation.start.prune import delete, prune_text, unneeded
from reward_ablation.start.reruns import Reruns
from reward_ablation.start.results_folder import ResultsFolder
from reward_ablation.start.status import ask_slurm, read_status
from reward_ablation.start.status_text import status_text
from reward_ablation.start.verify import Verification
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError, one_line_errors


class Commands:
    """The targets that start no job. The results folder is claimed before anything is deleted."""

    def __init__(
        self, workflow: Any, study: Study, reruns: Reruns, results_folder: ResultsFolder, keys: CommandKeys
    ) -> None:
        self.workflow = workflow
        self.study = study
        self.reruns = reruns
        self.results_folder = results_folder
        self.keys = keys

    @one_line_errors()
    def plan(self, wildcards: Any) -> list[str]:
        """The files that the target `all` asks for: what a start makes of them is printed once Snakemake knows it."""
        self._asked_beside("plan")
        once_planned(self.workflow, self._print_plan)
        return inputs_of(self.workflow, "all")

    @one_line_errors()
    def _print_plan(self) -> NoReturn:
        plan, site = self.reruns.plan(), site_file(self.workflow)
        runs = [planned.run for planned in plan.training]
        memory = memory_lines(self.study, runs, runs_here(self.workflow), read_site(site) if site else None)
        _end(plan_text(plan, memory))

    @one_line_errors()
    def status(self, wildcards: Any) -> NoReturn:
        """Print where each run is, and end."""
        self._asked_beside("status")
        jobs, silent = ask_slurm()
        _end(status_text(read_status(self.study, self.reruns.present, jobs, self.reruns.code_counts), silent))

    @one_line_errors()
    def preview(self, wildcards: Any) -> NoReturn:
        """Make the tables, figures and summary of what is finished, and end; with status 1 where any could not be."""
        self._asked_beside("preview")
        preview = Preview(self.study, finished_part(self.study, self.reruns), self.workflow)
        sys.exit(preview.make(partial(print, flush=True)))

    @one_line_errors()
    def power(self, wildcards: Any) -> NoReturn:
        """Print what effects a study of this design would show, write it to the folder `design`, and end."""
        self._asked_beside("power")
        from reward_ablation.start.power import power  # loads Matplotlib

        _end(power(self.study, self.keys.of("power")))

    @one_line_errors()
    def budget(self, wildcards: Any) -> NoReturn:
        """Print which seeds make the primary contrasts sharpest in the stated hours, and end."""
        self._asked_beside("budget")
        from reward_ablation.start.budget_text import budget  # loads Matplotlib

        _end(budget(self.study, self.reruns.present, self.keys.of("budget")))

    @one_line_errors()
    def suggest(self, wildcards: Any) -> NoReturn:
        """Print the arm to train next, and end."""
        from reward_ablation.start.suggest import suggestion  # pandas and scipy, which no other start needs

        self._asked_beside("suggest")
        _end(suggestion(self.study))

    @one_line_errors()
    def verify(self, wildcards: Any) -> NoReturn:
        """Read all files that are on record again, print which are damaged, and end; with status 1 where any is."""
        self._asked_beside("verify")
        verification = Verification(self.study)
        verification.run(partial(print, flush=True), partial(print, file=sys.stderr, flush=True))
        sys.exit(1 if verification.damaged else 0)

    @one_line_errors()
    def prune(self, wildcards: Any) -> NoReturn:
        """Print what the study does not need, delete it where the target `delete` stands beside, and end."""
        asked = self._asked_beside("prune", "delete")
        found = unneeded(self.study)
        if "delete" not in asked or not found:
            _end(prune_text(self.study, found, deleted=False))
        with self.results_folder.claim():
            print(prune_text(self.study, found, deleted=True))
            for leftover in found:
                if kept_because := delete(leftover, self.study.root / self.study.config.root):
                    print(f"kept: {leftover.path.relative_to(self.study.root)}: {kept_because}")
        _end()

    @one_line_errors()
    def delete(self, wildcards: Any) -> NoReturn:
        """What `snakemake prune delete` says beside `prune`; alone it is refused."""
        if "prune" not in targets(self.workflow):
            raise StudyError("delete: of what? `snakemake prune` lists it, `snakemake prune delete` deletes that")
        self.prune(wildcards)

    def announce(self, tell: Callable[[str], None]) -> None:
        """Tell what this start trains, evaluates and scores, in a line, and what is damaged; nothing where nothing."""
        with one_line_errors():
            asked = self.reruns.asked()
            if not asked and not self.reruns.evaluations() and not self.reruns.scorings():
                return
            plan = self.reruns.plan(asked)
        for line in damage_lines(plan):
            tell(line)
        # Runs that are forced by hand, and those whose records only are put back, are not in the plan.
        if plan.training or plan.evaluations.total or plan.scorings:
            tell(summary(plan))

    def _asked_beside(self, command: str, *allowed: str) -> set[str]:
        """All targets of the command line; others than a command and those allowed beside it are refused."""
        asked = targets(self.workflow)
        if others := sorted(asked - {command, *allowed}):
            raise StudyError(f"{command}: makes nothing, and {others[0]} does; start one after the other")
        self.keys.of(command)
        return asked


def _end(*lines: str) -> NoReturn:
    """Print lines, and end Snakemake."""
    for line in lines:
        print(line)
    sys.stdout.flush()
    sys.exit(0)
