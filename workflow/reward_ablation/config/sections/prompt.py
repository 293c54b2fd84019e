"""How a question becomes a prompt."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from reward_ablation.config.base import Section


class Prompt(Section):
    """How a question becomes a prompt."""

    system: str | None = Field(None, description="System message; needs chat.")
    template: str = Field("{question}", description="User message; {question} stands for the question.")
    chat: bool = Field(True, description="Use the tokenizer's chat template; false: the bare template.")

    @field_validator("template")
    @classmethod
    def _has_question(cls, template: str) -> str:
        if template.count("{question}") != 1:
            raise ValueError("must contain {question} exactly once")
        return template

    @model_validator(mode="after")
    def _system_needs_chat(self) -> Prompt:
        if self.system is not None and not self.chat:
            raise ValueError("system needs chat: true; without it, write the text into template")
        return self
