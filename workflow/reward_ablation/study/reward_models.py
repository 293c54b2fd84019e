"""The models of the function `reward_model`: where they come from, and where the workflow keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reward_ablation.study.canonical import dump, key_of
from reward_ablation.study.spec_parts import ComponentSpec, MetricSpec

#: The function that is a model.
FUNCTION = "reward_model"


@dataclass(frozen=True)
class UsedModel:
    """A reward model as one component or metric names it.

    `parameters` are all of the component's, also those that are no part of its spec. `content` is the digest of a local
    folder; None for a model on the hub.
    """

    parameters: Mapping[str, Any]
    content: str | None

    @property
    def reference(self) -> str:
        """`id@commit` of a hub model, else the folder's path: `RewardModelSettings.reference` of the component."""
        revision = self.parameters.get("revision")
        return f"{self.parameters['model']}{f'@{revision}' if revision else ''}"

    @property
    def source(self) -> dict[str, Any]:
        """Where the model comes from, as the command that fetches the model takes it."""
        model = self.parameters["model"]
        if self.content is None:
            return {"source": "hub", "id": model, "revision": self.parameters["revision"]}
        return {"source": "local", "path": model, "content": self.content}

    @property
    def key(self) -> str:
        """Key of the fetched model's folder: by commit or content, and not by where a local folder lies."""
        return key_of({key: value for key, value in self.source.items() if key != "path"})

    @property
    def file(self) -> str:
        """Record of the fetched model below the results folder."""
        return model_file(self.key)


def model_file(key: str) -> str:
    """Record of a fetched reward model below the results folder, by its key."""
    return f"models/reward-{key}/model.json"


def sources_by_key(models: Iterable[UsedModel]) -> dict[str, str]:
    """Source of each model, as JSON, by the key of its folder."""
    return {model.key: dump(model.source) for model in models}


def used_models(
    specs: Mapping[str, ComponentSpec | MetricSpec], written: Mapping[str, Mapping[str, Any]]
) -> dict[str, UsedModel]:
    """The models among components or metrics, by name; `written` are their parameters as the config has them."""
    return {
        name: UsedModel(written[name], spec.contents.get("model"))
        for name, spec in specs.items()
        if spec.function == FUNCTION
    }
