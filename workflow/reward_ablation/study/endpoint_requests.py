"""Warnings about requests to endpoints, before any request is made.

The warnings are about needless requests of components, and about requests of metrics. A component makes needless
requests if it scores arms that are not trained on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reward_ablation.config.batch_sizes import BatchSizes
from reward_ablation.config.sections.data import ProblemSource, WordProblems
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.reward_signature import is_asynchronous
from reward_ablation.study.run import Run
from reward_ablation.study.specs_of_config import data_spec
from reward_ablation.system.strict_text import load_json
from reward_ablation.system.user_functions import in_a_file

#: The component that asks an endpoint.
JUDGE = "judge"


def request_warnings(study: StudyConfig, runs: Iterable[Run], root: Path) -> list[str]:
    """A warning for each component that asks an endpoint about completions of runs in which its weight is 0."""
    warnings = []
    every = list(runs)
    for name, component in study.components.items():
        idle = [run for run in every if not run.arm_spec.weights.get(name)]
        if component.scored == "everywhere" and idle and asks(component.function, root):
            warnings.append(
                f"components.{name}: {_asking(component.function)} about each completion, also "
                f"in {len(idle)} of {len(every)} runs whose weight on it is 0: about {_requests(idle, every)}; "
                f"components.{name}.scored: where_trained leaves them out"
            )
    return warnings


def metric_warnings(study: StudyConfig, runs: Iterable[Run], root: Path) -> list[str]:
    """A warning for each metric that asks an endpoint about the stored answers, with the number of answers.

    The number is an upper bound: equal answers are judged once, and answers that are already judged are not judged
    again.
    """
    asking = {name: function for name, (function, _) in study.metric_functions().items() if asks(function, root)}
    if not asking:
        return []
    models = judged_models(study, list(runs))
    questions = [known_questions(study, name, source, root) for name, source in study.data.evaluation.items()]
    if models is None or None in questions:
        number = "their number is known once " + ("the runs are trained" if models is None else "the data are prepared")
    else:
        answers = models * sum(each or 0 for each in questions) * (study.evaluation.greedy + study.evaluation.samples)
        number = f"at most {answers:,} requests"
    of_models = "each model" if models is None else f"{models} models" if models > 1 else "1 model"
    return [
        f"evaluation.metrics.{name}: {_asking(function)} about each answer of {of_models}: {number}"
        for name, function in asking.items()
    ]


def judged_models(study: StudyConfig, runs: list[Run]) -> int | None:
    """Number of models whose answers are judged: the base model, the final models, and models kept during training.

    None if runs keep models and their number of steps is not set.
    """
    kept = 0
    for run in runs if study.keep_models else ():
        steps = run.arm_spec.training.get("max_steps", -1)
        if not isinstance(steps, int) or steps <= 0:
            return None
        kept += (steps - 1) // study.keep_models
    return 1 + len(runs) + kept


def known_questions(study: StudyConfig, name: str, source: ProblemSource, root: Path) -> int | None:
    """Upper bound of an evaluation set's questions; None if neither a prepared set nor the config says it."""
    record = root / study.root / "data" / "evaluation" / f"{name}-{data_spec(study, source, root).key}.json"
    try:
        return int(load_json(record.read_bytes())["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        if isinstance(source, WordProblems):
            return min(source.count, source.limit or source.count)
        return source.limit


def _asking(function: str) -> str:
    """Words for what an asking function does. Of a user's function, we only know that it is asynchronous."""
    return "asks an endpoint" if function == JUDGE else "is asynchronous; if it asks an endpoint, it does so"


def asks(function: str, root: Path) -> bool:
    """Whether a component or metric may ask an endpoint: the judge does, and a user's `async def` may."""
    return is_asynchronous(function, root) if in_a_file(function) else function == JUDGE


def _requests(idle: list[Run], every: list[Run]) -> str:
    """Number of the idle runs' requests and of all runs' requests, in words: one request for each completion.

    The numbers are per step if a run's number of steps is not set.
    """
    steps = {run.name: run.arm_spec.training.get("max_steps", -1) for run in every}
    known = all(isinstance(number, int) and number > 0 for number in steps.values())
    few, all_of_them = (
        round(sum(completions_of_step(run.arm_spec) * (steps[run.name] if known else 1) for run in runs))
        for runs in (idle, every)
    )
    return f"{few:,} of {all_of_them:,} requests{'' if known else ' a step'}"


def completions_of_step(spec: ArmSpec) -> float:
    """Number of completions that a run samples per optimiser step. A generation serves `num_iterations` steps."""
    sizes = BatchSizes.of(spec.training, spec.process_count)
    return sizes.micro_batch * sizes.accumulation * sizes.processes / sizes.iterations
