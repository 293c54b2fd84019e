"""The study that `reward-ablation watch` shows, with its runs' states as `status` prints them.

`start.command_line` calls it and hands the result to the page. The page (package `watch`) may import nothing of
`start`. It gets the states by a function that it calls again and again.
"""

from __future__ import annotations

import time

from reward_ablation.start.decide import Decisions, with_diverged
from reward_ablation.start.status import (
    RunStatus,
    State,
    ask_slurm,
    counted_states,
    facts_of,
    failure_of,
    read_status,
    step_text,
)
from reward_ablation.study.study import Study
from reward_ablation.watch.study_data import RunState, States, Watch

#: Seconds between two questions to Slurm, whose controller all users of a cluster share.
SLURM_EVERY = 60.0


def watched(study: Study, code_counts: bool) -> Watch:
    """What the page shows of a study. An arm has the names of all arms with its spec, since they share its runs."""
    root = study.results
    arms: dict[str, dict[str, float]] = {}
    numbers: dict[str, int] = {}  # of arms, in the order of `arms`
    for name, arm in study.arms.items():
        sharing = [other for other, key in study.keys.items() if key == study.keys[name]]
        numbers[name] = len(arms)
        arms[" = ".join(sharing) if name == sharing[0] else name] = arm.weights
    runs = [(numbers[run.arm], run.seed, root / "runs" / run.name) for run in study.runs.values()]
    components, states = list(study.config.components), StateReader(study, code_counts)
    return Watch(study.config.name, components, arms, runs, root / study.problems_file, states.read)


class StateReader:
    """Reads the states of a study's runs again and again."""

    def __init__(self, study: Study, code_counts: bool):
        self.study = study
        self.code_counts = code_counts
        self._slurm = ask_slurm()
        self._asked = time.monotonic()

    def read(self) -> States:
        """The states now, also of runs that have diverged meanwhile."""
        if time.monotonic() - self._asked > SLURM_EVERY:
            self._slurm, self._asked = ask_slurm(), time.monotonic()
        jobs, silent = self._slurm
        status = read_status(Decisions(with_diverged(self.study), self.code_counts), jobs)
        runs = []
        for each in status.runs:
            facts = facts_of(each, status) + ([failure_of(each)] if each.state is State.FAILED else [])
            runs.append(RunState(each.state, _share_done(each), _step(each), ", ".join(facts)))
        lines = [f"{status.evaluated} of {status.evaluations} evaluations are done, the base model's included."]
        lines += [f"failed: {job.what}: {job.error} (log: {job.log})" for job in status.failed_jobs]
        lines += [status.looks] if status.looks else []
        lines += [f"which runs wait at Slurm is not known: {silent}"] if silent else []
        return States(runs, counted_states(status.runs), lines)


def _share_done(each: RunStatus) -> float | None:
    beat = each.signs.beat
    if each.state is State.DONE:
        return 1.0
    return min(1.0, beat.step / beat.steps) if beat and beat.step is not None and beat.steps else None


def _step(each: RunStatus) -> str:
    beat = each.signs.beat
    return step_text(beat) if beat is not None and beat.step is not None else ""
