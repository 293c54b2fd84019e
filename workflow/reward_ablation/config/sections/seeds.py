"""The seeds of a study: a list, or the looks of a sequential study, which may decide contrasts at each look."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from reward_ablation.config.base import Section, Seed

#: Alpha-spending functions, which divide the error among the looks.
Spending = Literal["pocock", "obrien_fleming"]


class SequentialSeeds(Section):
    """Numbers of seeds after which contrasts may be decided. A decided contrast gets no further seeds."""

    looks: list[Annotated[int, Field(gt=0, le=10_000)]] = Field(
        min_length=2, description="Numbers of seeds, ascending; the seeds are 0, 1, ..."
    )
    stop: Spending = Field("pocock", description="Lan and DeMets' function that divides the error among the looks.")

    @field_validator("looks")
    @classmethod
    def _ascending(cls, looks: list[int]) -> list[int]:
        if looks != sorted(set(looks)):
            raise ValueError("not ascending; each look needs more seeds than the look before, as in [2, 3, 5, 8]")
        if looks[0] < 2:
            raise ValueError("the first look has one seed, which cannot show how seeds differ; begin with 2 or more")
        return looks


def _kind(written: Any) -> str:
    return "sequential" if isinstance(written, dict | SequentialSeeds) else "list"


Seeds = Annotated[
    Annotated[list[Seed], Field(min_length=1), Tag("list")] | Annotated[SequentialSeeds, Tag("sequential")],
    Discriminator(_kind),
]
