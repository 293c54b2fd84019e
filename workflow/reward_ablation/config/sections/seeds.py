"""The seeds of a study: a list, or looks after each of which contrasts may be decided."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag, field_validator

from reward_ablation.config.base import Section

#: Functions that hand out the error over the looks.
Spending = Literal["pocock", "obrien_fleming"]


class SequentialSeeds(Section):
    """Numbers of seeds after which a study is judged; a contrast that is decided gets no further seeds."""

    looks: list[PositiveInt] = Field(min_length=2, description="Numbers of seeds, ascending; the seeds are 0, 1, ...")
    stop: Spending = Field("pocock", description="Lan and DeMets' function that hands out the error over the looks.")

    @field_validator("looks")
    @classmethod
    def _ascending(cls, looks: list[int]) -> list[int]:
        if looks != sorted(set(looks)):
            raise ValueError("not ascending; a look has more seeds than the one before, as in [2, 3, 5, 8]")
        if looks[0] < 2:
            raise ValueError("the first look has one seed, which says nothing about other seeds; begin with 2 or more")
        return looks


def _kind(written: Any) -> str:
    return "sequential" if isinstance(written, dict | SequentialSeeds) else "list"


Seeds = Annotated[
    Annotated[list[NonNegativeInt], Field(min_length=1), Tag("list")] | Annotated[SequentialSeeds, Tag("sequential")],
    Discriminator(_kind),
]
