"""Reward components, and how runs are trained and measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, field_validator, model_validator

from reward_ablation.config.base import Line, NonNegativeInt, PositiveInt, Section


class Component(Section):
    """A reward function without a weight."""

    function: Line = Field(
        description="A function of reward_ablation.rewards.components, path/to/file.py:function, or "
        "package.module:function."
    )
    parameters: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the function.")
    placement: Literal["all_tokens", "last_token", "answer_span"] = Field(
        "all_tokens", description="The tokens of a completion that the component's advantage acts on."
    )
    scored: Literal["everywhere", "where_trained"] = Field(
        "everywhere",
        description="where_trained: only in arms whose weight is not 0; no part of the other arms' runs.",
    )


class Lora(Section):
    """Low-rank adapters, by peft's LoraConfig names."""

    r: PositiveInt = 16
    lora_alpha: PositiveFloat = 32
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: Line | list[Line] = "all-linear"

    @field_validator("target_modules")
    @classmethod
    def _no_head(cls, names: str | list[str]) -> str | list[str]:
        if names == "lm_head" or (isinstance(names, list) and "lm_head" in names):
            raise ValueError("lm_head: TRL trains no adapter of it; take it out")
        return names


def _steps_between(every: Any) -> Any:
    """Read `off` as 0. YAML reads a bare `off` as false."""
    return 0 if every in ("off", False) else every


#: Backward passes of training: ours, which tells completions apart, or TRL's own.
BY_COMPLETION, BY_TRL = "by_completion", "trl"


class Gradients(Section):
    """Gram matrix of the components' gradients."""

    every: Annotated[NonNegativeInt, BeforeValidator(_steps_between)] = Field(
        1, description="Measure each n-th step; off or 0: never."
    )
    whole: list[PositiveInt] = Field(
        default_factory=list, description="Steps at which the components' whole gradients are written, too."
    )
    backward: Literal["by_completion", "trl"] = Field(
        "by_completion",
        description="The backward pass of training; trl: TRL's own, for any model, with which nothing is measured.",
    )

    @model_validator(mode="before")
    @classmethod
    def _measure_nothing_of_trls_pass(cls, values: Any) -> Any:
        """TRL's own pass does not tell completions apart: `every` is off by default, and other values are refused."""
        return {"every": 0, **values} if isinstance(values, dict) and values.get("backward") == BY_TRL else values

    @model_validator(mode="after")
    def _nothing_to_measure(self) -> Gradients:
        if self.backward == BY_TRL and (self.every or self.whole):
            name = "every" if self.every else "whole"
            raise ValueError(f"{name}: backward: trl measures nothing; leave {name} out, or backward")
        return self
