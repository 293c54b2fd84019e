"""Models of the component function `reward_model`: their sources, and the folders where the workflow keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reward_ablation.spec.canonical import dump, key_of
from reward_ablation.spec.parts import ComponentSpec, MetricSpec

#: The component function that scores by a model.
FUNCTION = "reward_model"


@dataclass(frozen=True)
class UsedModel:
    """A reward model of one component or metric.

    `parameters` are all parameters of the component, including those that are not part of its spec. `content` is the
    digest of a local folder; None for a model on the hub.
    """

    parameters: Mapping[str, Any]
    content: str | None

    @property
    def reference(self) -> str:
        """`id@commit` of a hub model, or the path of a local folder.

        `RewardModelSettings.reference` of the component is the same.
        """
        revision = self.parameters.get("revision")
        return f"{self.parameters['model']}{f'@{revision}' if revision else ''}"

    @property
    def source(self) -> dict[str, Any]:
        """Source of the model, in the form that the command which fetches models takes."""
        model = self.parameters["model"]
        if self.content is None:
            return {"source": "hub", "id": model, "revision": self.parameters["revision"]}
        return {"source": "local", "path": model, "content": self.content}

    @property
    def key(self) -> str:
        """Key of the fetched model's folder. It depends on commit or content, not on the path of a local folder."""
        return key_of({key: value for key, value in self.source.items() if key != "path"})

    @property
    def file(self) -> str:
        """Record of the fetched model below the results folder."""
        return model_file(self.key)


def model_file(key: str) -> str:
    """Path of a fetched reward model's record, below the results folder, by the model's key."""
    return f"models/reward-{key}/model.json"


def sources_by_key(models: Iterable[UsedModel]) -> dict[str, str]:
    """Source of each model, as JSON, by the key of its folder."""
    return {model.key: dump(model.source) for model in models}


def used_models(
    specs: Mapping[str, ComponentSpec | MetricSpec], written: Mapping[str, Mapping[str, Any]]
) -> dict[str, UsedModel]:
    """The reward models of components or metrics, by their names. `written` are their parameters as in the config."""
    return {
        name: UsedModel(written[name], spec.contents.get("model"))
        for name, spec in specs.items()
        if spec.function == FUNCTION
    }
