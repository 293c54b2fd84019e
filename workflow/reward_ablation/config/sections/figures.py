"""Which figures a study has, and which of them `all.pdf` holds."""

from __future__ import annotations

from pydantic import Field

from reward_ablation.config.base import Line, Section


class Figures(Section):
    """Which figures a study has, and which of them `all.pdf` holds. No run depends on it."""

    appendix: bool = Field(False, description="Add all other figures to all.pdf; the report has them anyway.")
    problems: list[Line] = Field(
        [],
        max_length=12,
        description="Identifiers of single problems whose share of right answers over training has a figure.",
    )
