"""Warnings about requests to endpoints, servers of models that judge, before any is made.

`study.resolve` puts them among the study's warnings: on requests of metrics, and on needless ones of components, about
arms that are not trained on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.reward_signature import is_asynchronous
from reward_ablation.study.study import Run
from reward_ablation.system.user_functions import in_a_file

#: The component that asks an endpoint.
JUDGE = "judge"


def request_warnings(study: StudyConfig, runs: Sequence[Run], root: Path) -> list[str]:
    """A warning for each component that asks an endpoint about completions of runs in which its weight is 0."""
    warnings = []
    for name, component in study.components.items():
        idle = [run for run in runs if not run.arm_spec.weights.get(name)]
        if component.scored == "everywhere" and idle and asks(component.function, root):
            warnings.append(
                f"components.{name}: {_asking(component.function)} about each completion, also "
                f"in {len(idle)} of {len(runs)} runs whose weight on it is 0: about {_requests(idle, runs)}; "
                f"components.{name}.scored: where_trained leaves them out"
            )
    return warnings


def metric_warnings(study: StudyConfig, runs: Sequence[Run], root: Path) -> list[str]:
    """A warning for each metric that asks an endpoint, with a bound: what was judged is not judged again."""
    answers = study.evaluation.greedy + study.evaluation.samples
    models = f"{1 + len(runs)} models" + (", and of the models that runs keep" if study.keep_models else "")
    return [
        f"evaluation.metrics.{name}: {_asking(function)} about each answer: at most {answers} to each question, of "
        f"{models}"
        for name, (function, _) in study.metric_functions().items()
        if asks(function, root)
    ]


def _asking(function: str) -> str:
    """Words for what an asking function does. Of a user's function, we only know that it is asynchronous."""
    return "asks an endpoint" if function == JUDGE else "is asynchronous; if it asks an endpoint, it does so"


def asks(function: str, root: Path) -> bool:
    """Whether a component or metric may ask an endpoint: the judge does, and a user's `async def` may."""
    return is_asynchronous(function, root) if in_a_file(function) else function == JUDGE


def _requests(idle: Sequence[Run], every: Sequence[Run]) -> str:
    """Number of idle and of all requests in words, one for each completion; per step if steps are not set."""
    steps = [run.arm_spec.training.get("max_steps", -1) for run in every]
    known = all(isinstance(number, int) and number > 0 for number in steps)
    few, all_of_them = (
        round(sum(_of_step(run.arm_spec) * (run.arm_spec.training["max_steps"] if known else 1) for run in runs))
        for runs in (idle, every)
    )
    return f"{few:,} of {all_of_them:,} requests{'' if known else ' a step'}"


def _of_step(spec: ArmSpec) -> float:
    """Number of completions that a run samples per optimiser step. A generation serves `num_iterations` steps."""
    sizes = BatchSizes.of(spec.training, spec.process_count)
    return sizes.micro_batch * sizes.accumulation * sizes.processes / sizes.iterations
