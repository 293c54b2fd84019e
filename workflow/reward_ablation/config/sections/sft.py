"""The supervised start of all runs: demonstrations that the base model learns before any reward."""

from __future__ import annotations

from pydantic import Field, field_validator

from reward_ablation.config.base import Section, Seed
from reward_ablation.config.sections.data import ProblemSource, refuse_too_long
from reward_ablation.config.sections.training import Lora
from reward_ablation.config.trl_settings import SftSettings

#: Parts of a demonstration in a template. The working is the solution without the line that states the answer.
PLACEHOLDERS = ("{solution}", "{working}", "{answer}")


class Sft(Section):
    """Supervised fine-tuning on demonstrations."""

    data: ProblemSource
    completion: str | list[str] = Field(
        "{solution}",
        description="Text after the prompt, of {solution}, {working} and {answer}; several texts take turns by row.",
    )
    training: SftSettings = Field(default_factory=dict, description="TRL's SFTConfig by its own names.")
    lora: Lora | None = Field(None, description="Train adapters and merge them; default: all weights.")
    seed: Seed = 0

    @field_validator("data")
    @classmethod
    def _drops_nothing(cls, data: ProblemSource) -> ProblemSource:
        refuse_too_long(data)
        return data

    @field_validator("completion")
    @classmethod
    def _have_placeholders(cls, completion: str | list[str]) -> str | list[str]:
        templates = [completion] if isinstance(completion, str) else completion
        if not templates:
            raise ValueError("no template; give one, or leave the key out for {solution}")
        for template in templates:
            if not any(placeholder in template for placeholder in PLACEHOLDERS):
                raise ValueError(f"{template!r} holds none of {', '.join(PLACEHOLDERS)}; give it one")
        return completion

    @property
    def templates(self) -> list[str]:
        """The templates, which take turns by row."""
        return [self.completion] if isinstance(self.completion, str) else self.completion
