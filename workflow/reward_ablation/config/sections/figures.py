"""Which figures `all.pdf` holds."""

from __future__ import annotations

from pydantic import Field

from reward_ablation.config.base import Section


class Figures(Section):
    """Which figures `all.pdf` holds. No run depends on it."""

    appendix: bool = Field(False, description="Add all other figures to all.pdf; the report has them anyway.")
