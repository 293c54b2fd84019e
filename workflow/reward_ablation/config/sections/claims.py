"""Claims: statements on two arms, such as those of a paper, that the finished study judges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.sections.primary import Mode

Direction = Literal["higher", "lower", "same"]


class ClaimOnArms(Section):
    """A claim about one arm's metric minus another arm's. No run depends on it."""

    says: Line = Field(min_length=1, description="The claim in words.")
    source: Line | None = Field(None, description="Where the claim is made, such as a paper and its table.")
    metric: Line = Field(description="A metric of the evaluated models.")
    arm: Name
    against: Name | None = Field(
        None, description="What the arm is compared with: an arm, or base (before training); default: the baseline."
    )
    direction: Direction = Field(description="Whether the arm is claimed to be higher, lower, or the same.")
    margin: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="In the metric's units. higher, lower: the difference exceeds this; same: it stays within this.",
    )
    dataset: Name | None = Field(None, description="An evaluation data set; default: the primary question's.")
    mode: Mode | None = Field(None, description="Default: the primary question's.")

    @model_validator(mode="after")
    def _same_has_a_margin(self) -> ClaimOnArms:
        if self.direction == "same" and self.margin == 0:
            raise ValueError(
                "direction same needs a margin above 0: set margin to the smallest difference that matters"
            )
        return self
