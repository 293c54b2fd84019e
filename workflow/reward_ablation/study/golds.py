"""Which sets of problems need answers, because a component asks for answers or evaluation grades by them."""

from __future__ import annotations

from pathlib import Path

from reward_ablation.config.sections.data import ProblemSource, further_columns, has_answers
from reward_ablation.config.study_config import StudyConfig


def training_golds(study: StudyConfig, root: Path) -> bool:
    """Whether training problems need answers.

    A kind of source that earlier versions accepted always needs answers, so that the keys of its runs stay. A source
    with further columns, or one declared without answers, needs answers only if a component asks for them.
    """
    return _always_had_golds(study.data.train) or bool(asking_components(study, root))


def evaluation_golds(study: StudyConfig, root: Path) -> bool:
    """Whether problems of evaluation sets need answers."""
    return study.evaluation.answer_format is not None or bool(asking_metrics(study, root))


def demonstration_golds(study: StudyConfig) -> bool:
    """Whether demonstrations of the supervised start need answers. Some sources always do, as in `training_golds`."""
    assert study.sft
    return _always_had_golds(study.sft.data) or any("{answer}" in template for template in study.sft.templates)


def asking_components(study: StudyConfig, root: Path) -> list[str]:
    """Names of the components that ask for the column `answer`."""
    from reward_ablation.study.reward_import import planned_arguments  # here, because it imports the grader

    further = further_columns(study.data.train)
    return [
        name
        for name, component in study.components.items()
        if "answer" in planned_arguments(component.function, component.parameters, root, further).asked
    ]


def asking_metrics(study: StudyConfig, root: Path) -> list[str]:
    """Names of the study's own metrics that ask for the column `answer`."""
    from reward_ablation.study.reward_import import planned_arguments  # here, because it imports the grader

    further = [column for source in study.data.evaluation.values() for column in further_columns(source)]
    return [
        name
        for name, (function, parameters) in study.metric_functions().items()
        if "answer" in planned_arguments(function, parameters, root, further).asked
    ]


def check_answers(study: StudyConfig, root: Path) -> None:
    """Refuse data without answers if a component, a metric or a template needs answers.

    The error is a ValueError: `key: what is wrong; what to do`.
    """
    if not has_answers(study.data.train) and (asking := asking_components(study, root)):
        raise ValueError(
            f"data.train: {_without_answers(study.data.train)}, and components.{asking[0]} asks for them; take the "
            "component out, or train on data with answers"
        )
    for name, source in study.data.evaluation.items():
        if evaluation_golds(study, root) and not has_answers(source):
            asking = asking_metrics(study, root) if study.evaluation.answer_format is None else []
            key = f"metrics.{asking[0]}" if asking else "answer_format"
            raise ValueError(
                f"data.evaluation.{name}: {_without_answers(source)}, and evaluation.{key} grades by them; "
                f"leave {key} out, or evaluate on data with answers"
            )
    if study.sft and not has_answers(study.sft.data) and demonstration_golds(study):
        raise ValueError(
            f"sft.data: {_without_answers(study.sft.data)}, and a template of sft.completion has {{answer}}; use "
            "{solution} or {working}"
        )


def _always_had_golds(source: ProblemSource) -> bool:
    return has_answers(source) and not further_columns(source)


def _without_answers(source: ProblemSource) -> str:
    return "columns.answer is null" if source.source == "file" else f"{source.source} has no answers"
