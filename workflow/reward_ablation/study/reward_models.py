"""The models of the component `reward_model`: where they come from, and where the workflow keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_ablation.config.config_errors import describe
from reward_ablation.config.sections.model import HubModel
from reward_ablation.study.canonical import dump, key_of
from reward_ablation.study.spec_parts import ComponentSpec
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError

#: The function that is a model.
FUNCTION = "reward_model"
#: The parameter whose folder counts by its content.
PARAMETER = "model"


def contents_of_parameters(component: ComponentSpec, root: Path) -> dict[str, str]:
    """Digest of the local folder that a component's parameter names, by the parameter; empty for other components.

    Raises
    ------
    StudyError
        There is no such folder, and no revision of a model on the hub; or the name is none of a repository.
    """
    if component.function != FUNCTION:
        return {}
    model, revision = component.parameters[PARAMETER], component.parameters.get("revision")
    if not isinstance(model, str):
        raise StudyError("model: must be written in the config: it decides the runs' keys; take env out")
    if revision is not None:
        try:
            HubModel(id=model, revision=revision)
        except ValidationError as error:
            raise StudyError(describe(error, {})) from None
        return {}
    if not os.path.isdir(root / model):
        raise StudyError(
            f"model: {model}: no such folder; for a model from the hub give `revision` too, the full hash of a commit"
        )
    if not os.path.isfile(root / model / "config.json"):
        raise StudyError(f"model: {model}: no config.json; give a folder with a saved transformers model")
    return {PARAMETER: folder_fingerprint(root / model)}


def reference_of(component: ComponentSpec) -> str:
    """`id@commit` of a hub model, else the folder's path: `RewardModelSettings.reference` of the component."""
    revision = component.parameters.get("revision")
    return f"{component.parameters[PARAMETER]}{f'@{revision}' if revision else ''}"


def source_of(component: ComponentSpec) -> dict[str, Any]:
    """The model's source, as the command that fetches it takes it."""
    model, revision = component.parameters[PARAMETER], component.parameters.get("revision")
    if revision is not None:
        return {"source": "hub", "id": model, "revision": revision}
    return {"source": "local", "path": model, "content": component.contents[PARAMETER]}


def key_of_model(component: ComponentSpec) -> str:
    """Key of the model's folder: by commit or content, and not by where a local folder lies."""
    return key_of({key: value for key, value in source_of(component).items() if key != "path"})


def model_file(key: str) -> str:
    """Record of a fetched reward model below the results folder."""
    return f"models/reward-{key}/model.json"


def sources_by_key(components: Iterable[ComponentSpec]) -> dict[str, str]:
    """Source of each reward model among components, as JSON, by the key of its folder."""
    return {key_of_model(each): dump(source_of(each)) for each in components if each.function == FUNCTION}


def files_by_reference(components: Iterable[ComponentSpec]) -> dict[str, str]:
    """Record of each reward model among components, below the results folder, by what a component calls the model."""
    return {reference_of(each): model_file(key_of_model(each)) for each in components if each.function == FUNCTION}
