"""The reward models of a run, in each of its processes: loaded before the trainer, on the process's own device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from reward_ablation.config.secrets import with_variables
from reward_ablation.study.reward_models import FUNCTION
from reward_ablation.study.spec_parts import ComponentSpec
from reward_ablation.system.errors import StudyError

#: Imported by its name: the digests of runs without a reward model are not over it.
_MODULE = "reward_ablation.models.reward_model"


@dataclass(frozen=True)
class RewardModels:
    """Where the reward models of a process are, and the device that they run on.

    `folders` are those of fetched models, by what the components call a model.
    """

    folders: Mapping[str, Path]
    device: str

    def load(self, components: Mapping[str, ComponentSpec], others: Mapping[str, Mapping[str, Any]]) -> None:
        """Load the models of those components that are models, each once.

        `others` are parameters by component that are no part of the spec.

        A model that cannot be used ends the run before anything is sampled. DeepSpeed would divide a model among the
        processes that is loaded after the trainer's config is made.

        Raises
        ------
        StudyError
            `components.NAME: parameter: what is wrong; what to do`.
        """
        models = {
            name: {**part.parameters, **others.get(name, {})}
            for name, part in components.items()
            if part.function == FUNCTION
        }
        if not models:
            return
        host: Any = import_module(_MODULE)
        host.host_reward_models(self.device, self.folders)
        for name, parameters in models.items():
            try:
                host.open_reward_model({key: with_variables(value, os.environ) for key, value in parameters.items()})
            except StudyError as error:
                raise StudyError(f"components.{name}: {error}") from error
