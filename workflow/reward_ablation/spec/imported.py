"""The spec of an arm whose runs were trained elsewhere: what is known of them. It stands in place of an `ArmSpec`."""

from __future__ import annotations

from typing import Any

from reward_ablation.config.base import Line
from reward_ablation.spec.parts import ComponentSpec, Number, Spec


class ImportedSpec(Spec):
    """What is known of the runs of an arm.

    `imported` is the format of their files. A component is None where nothing but its scores is known. `training` has
    TRL's settings by which the tables read groups and totals: `num_generations` and `multi_objective_aggregation`.
    """

    imported: Line
    components: dict[str, ComponentSpec | None]
    training: dict[str, Any]
    weights: dict[str, Number]
    combine: None = None

    @property
    def functions(self) -> list[str]:
        """No code of this project trained the runs."""
        return []

    @property
    def taking_part(self) -> list[str]:
        """The components that the advantage is made of: those with a weight other than 0."""
        return [name for name, weight in self.weights.items() if weight]
