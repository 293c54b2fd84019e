"""Targets that end before any job: `plan`, `status`, `preview`, `power`, `budget`, `verify` and `prune`.

The commands are input functions, which Snakemake calls while it makes the jobs of its targets. At this time Snakemake
has not taken its lock, so the commands work while a study runs, and has not asked for any machine. `plan` prints only
after Snakemake has made all jobs of a whole start, since only Snakemake knows which of them it would run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from reward_ablation.start.command_keys import CommandKeys
from reward_ablation.start.finished import finished_part
from reward_ablation.start.internals import changes_files, once_planned, rule_inputs, targets
from reward_ablation.start.plan_text import damage_lines, plan_text, summary
from reward_ablation.start.preview import Preview
from reward_ablation.start.prune import DELETE, asked_for, in_trash, prune_text, remove, trash_lines, unneeded
from reward_ablation.start.reruns import Reruns
from reward_ablation.start.results_folder import ResultsFolder
from reward_ablation.start.status import ask_slurm, read_status
from reward_ablation.start.status_text import status_text
from reward_ablation.start.verify import Verification
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError, one_line_errors


class Commands:
    """The targets that start no job. `prune` claims the results folder before it deletes anything.

    No command changes a file in a dry run, nor where Snakemake only touches, lists or draws.
    """

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
        """The inputs of the target `all`. The plan is printed once Snakemake knows which of them a start would make."""
        self._refuse_other_targets("plan")
        once_planned(self.workflow, self._print_plan)
        return rule_inputs(self.workflow, "all")

    @one_line_errors()
    def _print_plan(self) -> NoReturn:
        plan = self.reruns.plan()
        _end(plan_text(plan), *trash_lines(self.study, [planned.run.name for planned in plan.training]))

    @one_line_errors()
    def status(self, wildcards: Any) -> NoReturn:
        """Print the state of each run, and end."""
        self._refuse_other_targets("status")
        jobs, slurm_silent = ask_slurm()
        _end(status_text(read_status(self.study, self.reruns.present, jobs, self.reruns.code_counts), slurm_silent))

    @one_line_errors()
    def preview(self, wildcards: Any) -> NoReturn:
        """Make the tables, figures and summary of the finished part, and end; with status 1 where any failed."""
        self._refuse_other_targets("preview")
        preview = Preview(self.study, finished_part(self.study, self.reruns), self.workflow)
        sys.exit(preview.make(partial(print, flush=True)))

    @one_line_errors()
    def power(self, wildcards: Any) -> NoReturn:
        """Print which effects a study of this design would find, write them to the folder `design`, and end."""
        self._refuse_other_targets("power")
        from reward_ablation.start.power import power  # loads Matplotlib

        _end(power(self.study, self.keys.of("power"), writes=changes_files(self.workflow)))

    @one_line_errors()
    def budget(self, wildcards: Any) -> NoReturn:
        """Print which seeds make the primary contrasts most precise within the stated hours, and end."""
        self._refuse_other_targets("budget")
        from reward_ablation.start.budget_text import budget  # loads Matplotlib

        _end(budget(self.study, self.reruns.present, self.keys.of("budget"), changes_files(self.workflow)))

    @one_line_errors()
    def verify(self, wildcards: Any) -> NoReturn:
        """Read all recorded files again, print which are damaged, and end; with status 1 where any is damaged."""
        self._refuse_other_targets("verify")
        verification = Verification(self.study)
        verification.run(partial(print, flush=True), partial(print, file=sys.stderr, flush=True))
        sys.exit(1 if verification.damaged else 0)

    @one_line_errors()
    def prune(self, wildcards: Any) -> NoReturn:
        """Print which files the study does not need, and end. Where the user asks for it, delete them."""
        if "delete" in targets(self.workflow):
            raise StudyError(f"delete: is no target; {DELETE} deletes what `snakemake prune` lists")
        self._refuse_other_targets("prune")
        lists = {None: (), "delete": unneeded(self.study), "empty_trash": in_trash(self.study)}
        asked = asked_for(self.keys.of("prune"))
        if not lists[asked] or not changes_files(self.workflow):
            note = ["", "nothing is deleted: this start changes no file"] if lists[asked] else []
            _end(prune_text(self.study, lists["delete"], lists["empty_trash"]), *note)
        with self.results_folder.claim(space=0):
            remove(self.study, lists[asked], to_trash=asked == "delete", tell=print)
        _end()

    def announce(self, tell: Callable[[str], None]) -> None:
        """Tell in a line what this start trains, evaluates and scores, and before it what is damaged, if anything."""
        with one_line_errors():
            to_train = self.reruns.asked()
            if not to_train and not self.reruns.evaluations() and not self.reruns.scorings():
                return
            plan = self.reruns.plan(to_train)
        for line in damage_lines(plan):
            tell(line)
        # The plan lacks runs that the user forced, and runs that only get their record back.
        if plan.training or plan.evaluations.total or plan.scorings:
            tell(summary(plan))
        for line in trash_lines(self.study, [planned.run.name for planned in plan.training]):
            tell(line)

    def _refuse_other_targets(self, command: str) -> None:
        """Raise a StudyError for targets other than the command, and for a key of another command."""
        if others := sorted(targets(self.workflow) - {command}):
            raise StudyError(f"{command}: cannot be combined with the target {others[0]}; run one after the other")
        self.keys.of(command)


def _end(*lines: str) -> NoReturn:
    """Print lines, and end Snakemake."""
    for line in lines:
        print(line)
    sys.stdout.flush()
    sys.exit(0)
