"""Requests to endpoints that a study makes for nothing: of components that score arms which are not trained on them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.rewards.load import in_a_file, user_file
from reward_ablation.study.run import Run
from reward_ablation.study.run_spec import ArmSpec

#: The component that asks an endpoint.
JUDGE = "judge"
#: TRL's default.
BATCH = 8


def request_warnings(study: StudyConfig, runs: Iterable[Run], root: Path) -> list[str]:
    """A warning for each component that asks an endpoint about completions of runs with a weight of 0 on it."""
    warnings = []
    every = list(runs)
    for name, component in study.components.items():
        idle = [run for run in every if not run.arm_spec.weights.get(name)]
        if component.scored == "everywhere" and idle and asks(component.function, root):
            judge, other = "asks an endpoint", "is asynchronous; if it asks an endpoint, it does so"
            warnings.append(
                f"components.{name}: {judge if component.function == JUDGE else other} about each completion, also "
                f"in {len(idle)} of {len(every)} runs whose weight on it is 0: about {_requests(idle, every)}; "
                f"components.{name}.scored: where_trained leaves them out"
            )
    return warnings


def asks(function: str, root: Path) -> bool:
    """Whether a component asks an endpoint, as far as known: the judge, and an `async def` of a user's file."""
    if not in_a_file(function):
        return function == JUDGE
    tree = ast.parse(user_file(function, root).read_bytes())
    name = function.rpartition(":")[2]
    return any(isinstance(node, ast.AsyncFunctionDef) and node.name == name for node in tree.body)


def _requests(idle: list[Run], every: list[Run]) -> str:
    """Requests of some runs among those of all: one for each completion, by step where no number of steps is set."""
    steps = {run.name: run.arm_spec.training.get("max_steps", -1) for run in every}
    known = all(isinstance(number, int) and number > 0 for number in steps.values())
    few, all_of_them = (
        round(sum(completions_of_step(run.arm_spec) * (steps[run.name] if known else 1) for run in runs))
        for runs in (idle, every)
    )
    return f"{few:,} of {all_of_them:,} requests{'' if known else ' a step'}"


def completions_of_step(spec: ArmSpec) -> float:
    """Completions that a run samples for each optimiser step: a generation serves `num_iterations` steps."""
    training = spec.training
    batch = training.get("per_device_train_batch_size", BATCH) * training.get("gradient_accumulation_steps", 1)
    return batch * spec.process_count / training.get("num_iterations", 1)
