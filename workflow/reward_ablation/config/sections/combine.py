"""How an arm combines its components."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from reward_ablation.config.base import Line, Section

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
