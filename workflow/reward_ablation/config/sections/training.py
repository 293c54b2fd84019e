"""How runs are trained and measured: components, their combination, adapters, the supervised start, gradients.

`config.study_config` has these keys in the config, and `config.designs` an arm's `combine`. TRL's own settings of
training are in `config.trl_settings`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PositiveFloat, field_validator, model_validator

from reward_ablation.config.base import Line, NonNegativeInt, Parameters, PositiveInt, Section, Seed
from reward_ablation.config.sections.data import ProblemSource, refuse_too_long
from reward_ablation.config.trl_settings import SftSettings

#: The name of `target_modules` with which peft takes all linear layers but the head.
ALL_LINEAR = "all-linear"


class Component(Section):
    """A reward function without a weight."""

    function: Line = Field(
        description="A function of reward_ablation.rewards.components, path/to/file.py:function, or "
        "package.module:function."
    )
    parameters: Parameters = Field(default_factory=dict, description="Keyword arguments of the function.")
    placement: Literal["all_tokens", "last_token", "answer_span"] = Field(
        "all_tokens", description="The tokens of a completion that the component's advantage acts on."
    )
    scored: Literal["everywhere", "where_trained"] = Field(
        "everywhere", description="where_trained: only in arms whose weight is not 0; no part of the other arms' runs."
    )


class Lora(Section):
    """Low-rank adapters, by peft's LoraConfig names."""

    r: PositiveInt = 16
    lora_alpha: PositiveFloat = 32
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: Line | list[Line] = ALL_LINEAR

    @field_validator("target_modules")
    @classmethod
    def _no_head(cls, names: str | list[str]) -> str | list[str]:
        listed = [names] if isinstance(names, str) else names
        if "lm_head" in listed:
            raise ValueError("lm_head: TRL trains no adapter of it; take it out")
        if not listed or not all(listed):
            raise ValueError("an empty name or list is no layer; name layers, or leave the key out for all linear ones")
        return names


def _steps_between(every: Any) -> Any:
    """Read `off` as 0. YAML reads a bare `off` as false."""
    return 0 if every in ("off", False) else every


#: Backward passes of training: ours, which tells completions apart, or TRL's own.
BY_COMPLETION, BY_TRL = "by_completion", "trl"


class Gradients(Section):
    """Gram matrix of the components' gradients."""

    # `backward` is a key of this section because only the pass that tells completions apart can measure.
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


#: TRL's two aggregations by our names of methods. Training uses TRL's own code for them.
TRL_AGGREGATIONS = {"weighted_sum": "sum_then_normalize", "gdpo": "normalize_then_sum"}
#: The Gram matrix that a gradient method uses by default.
DEFAULT_GRAM = "averaged"
#: TRL's setting that chooses the aggregation.
AGGREGATION = "multi_objective_aggregation"


def _as_section(value: Any) -> Any:
    return {"method": value} if isinstance(value, str) else value


class CombineMethod(Section):
    """A method of combination with its parameters. All keys that are not listed here are parameters of the method."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: Line = Field(
        description="A function of reward_ablation.combination.methods, path/to/file.py:function, or "
        "package.module:function."
    )
    gram: Literal["same_step", "previous", "averaged", "unbiased"] | None = Field(
        None, description="Gram matrix that a gradient method uses; default averaged."
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_allowed_keys(cls, data: Any) -> Any:
        """Replace the base class's refusal of unknown keys, which are parameters here; keys become texts."""
        return {str(key): value for key, value in data.items()} if isinstance(data, dict) else data

    def named(self, components: Collection[str]) -> list[str]:
        """The components that the parameters name, as a key or a text at any depth."""
        texts = {*_texts(self.parameters)}
        return [name for name in components if name in texts]

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's own parameters."""
        return dict(self.model_extra or {})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (str(key) for key in value)
        yield from _texts([*value.values()])
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


#: A name alone, or a mapping with `method` and parameters.
Combine = Annotated[CombineMethod, BeforeValidator(_as_section, json_schema_input_type=str | CombineMethod)]


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
