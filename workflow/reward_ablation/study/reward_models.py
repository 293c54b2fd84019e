"""Models of the component function `reward_model`: their sources, and the folders where the workflow keeps them.

`study.resolve` and `study.scoring` find here which models the rule `fetch_reward_model` fetches, and the jobs that
score get the folders. A model is one of the hub or a local folder, and is fetched once for all components that name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from reward_ablation.spec.canonical import dump, key_of
from reward_ablation.spec.parts import ComponentSpec, MetricSpec

#: The component function that scores by a model.
FUNCTION = "reward_model"


class UsedModel(NamedTuple):
    """A reward model of a component or metric."""

    #: `id@commit` of a hub model, or the path of a local folder, as `RewardModelSettings.reference` of the component.
    reference: str
    source: str  # the spec, as JSON, in the form that the command which fetches models takes
    key: str  # of the fetched model's folder. It depends on commit or content, not on the path of a local folder

    @property
    def file(self) -> str:
        """Record of the fetched model below the results folder."""
        return model_file(self.key)


def model_file(key: str) -> str:
    """Path of a fetched reward model's record, below the results folder, by the model's key."""
    return f"models/reward-{key}/model.json"


def used_models(
    specs: Mapping[str, ComponentSpec | MetricSpec], written: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> list[UsedModel]:
    """The reward models of components or metrics. `written` are their functions and parameters as in the config."""
    models = []
    for name, spec in specs.items():
        if spec.function != FUNCTION:
            continue
        parameters, content = written[name][1], spec.contents.get("model")
        model, revision = parameters["model"], parameters.get("revision")
        source = {"source": "hub", "id": model, "revision": revision}
        if content is not None:
            source = {"source": "local", "path": model, "content": content}
        key = key_of({name: value for name, value in source.items() if name != "path"})
        models.append(UsedModel(f"{model}@{revision}" if revision else model, dump(source), key))
    return models
