"""What decides the result of an evaluation, beside the model and the problems."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, ValidationError

from reward_ablation.study.base import Section
from reward_ablation.study.config_errors import describe
from reward_ablation.study.errors import StudyError
from reward_ablation.study.sections.evaluation import Evaluation
from reward_ablation.study.sections.prompt import Prompt


class EvaluateSpec(Section):
    """How a model is judged, and on which prompts."""

    evaluation: Evaluation
    prompt: Prompt
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict, description="As in training, for its prompts.")
    device: Literal["cpu", "cuda"] = "cpu"


def parse_spec(text: str) -> EvaluateSpec:
    """The spec of the command line.

    Raises
    ------
    StudyError
    """
    try:
        return EvaluateSpec.model_validate_json(text)
    except ValidationError as error:
        try:
            written = json.loads(text)
        except ValueError:
            written = None
        raise StudyError(f"--spec: {describe(error, written)}") from error
