"""How the base model and every run's final model are judged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from reward_ablation.config.base import Section

AnswerFormat = Literal["boxed", "hash", "final", "tag", "last_number"]


class Evaluation(Section):
    """How the base model and every run's final model are judged; the same for all arms."""

    answer_format: AnswerFormat = Field(description="Where strict accuracy looks for the answer.")
    greedy: bool = Field(True, description="One greedy answer a question.")
    samples: NonNegativeInt = Field(0, description="Sampled answers a question.")
    temperature: PositiveFloat = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    max_new_tokens: PositiveInt = 512
    batch_size: PositiveInt = 64
    seed: NonNegativeInt = 0
    backend: Literal["auto", "transformers", "vllm"] = Field(
        "auto", description="auto: vLLM where it is installed and a GPU is present."
    )

    @model_validator(mode="after")
    def _something_to_do(self) -> Evaluation:
        if not self.greedy and self.samples == 0:
            raise ValueError("nothing to evaluate: set greedy: true or samples above 0")
        return self
