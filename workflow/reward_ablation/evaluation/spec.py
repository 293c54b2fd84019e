"""What decides the result of an evaluation, beside the model and the problems."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, ValidationError

from reward_ablation.config.base import Section
from reward_ablation.config.config_errors import describe
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.config.sections.prompt import Prompt
from reward_ablation.system.errors import StudyError


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
