"""Calls of reward functions by WholeGroups in each process of a run, without a training.

torchrun --nproc-per-node 2 tests/training/scoring_in_processes.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

GROUP, ROWS = 4, 12
TEXTS = [f"text {row * row % 7}" for row in range(ROWS)]
PROBLEMS = [f"p{row // GROUP}" for row in range(ROWS)]


def ranked(completions, problem_id, log_extra, log_metric, trainer_state, **columns):
    """Rank among all completions of the call's problem, and the number of completions of the call."""
    log_extra("text", completions)
    log_metric("calls", 1.0)
    assert trainer_state == "of this process"
    groups = [[t for t, p in zip(completions, problem_id, strict=True) if p == problem] for problem in problem_id]
    completions += ["a list of a call is its own"]
    return [float(sorted(group).index(text)) for group, text in zip(groups, completions, strict=False)]


def partly_logged(completions, problem_id, log_extra, **columns):
    if "p2" in problem_id:
        log_extra("of the last group", problem_id)
    return [None for _ in completions]


def failing(completions, problem_id, **columns):
    from reward_ablation.system.errors import PassingError

    if "p0" not in problem_id:
        raise PassingError("the judge is away")
    return [0.0] * len(completions)


def logging_too_little(completions, log_extra, **columns):
    log_extra("verdict", ["one"])
    return [0.0] * len(completions)


def main() -> None:
    from accelerate import PartialState

    from reward_ablation.training.core.whole_groups import WholeGroups

    state = PartialState(cpu=True)
    rows = ROWS // state.num_processes
    here = slice(state.process_index * rows, (state.process_index + 1) * rows)
    groups = WholeGroups(GROUP)
    columns, told = {"completions": TEXTS[here], "problem_id": PROBLEMS[here]}, {}
    for function in (ranked, partly_logged, failing, logging_too_little):
        outcome = told[function.__name__] = {"extra": {}, "metrics": []}
        of_process = {
            "trainer_state": "of this process",
            "log_extra": outcome["extra"].__setitem__,
            "log_metric": lambda name, value, metrics=outcome["metrics"]: metrics.append(name),
        }
        try:
            outcome["scores"] = groups.scoring(function)(**columns, **of_process)
        except ValueError as error:
            outcome["error"] = f"{type(error).__name__}: {error}"
    Path(sys.argv[1], f"{state.process_index}.json").write_text(json.dumps(told))
    state.wait_for_everyone()  # a process that ends first would close the others' connections
    state.destroy_process_group()


if __name__ == "__main__":
    main()
