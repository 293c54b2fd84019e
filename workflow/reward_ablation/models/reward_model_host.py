"""The reward models of a process: those of a run, loaded before its trainer, or those of metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from reward_ablation.config.secrets import with_variables
from reward_ablation.study.reward_models import FUNCTION
from reward_ablation.study.spec_parts import ComponentSpec, MetricSpec
from reward_ablation.system.errors import StudyError

#: Imported by its name: digests of runs and scores without a reward model are not over it, and torch is not loaded.
_MODULE = "reward_ablation.models.reward_model"


@dataclass(frozen=True)
class RewardModels:
    """Where the reward models of a process are, and the device that they run on.

    `folders` are those of fetched models, by what the components call a model. `section` of the config has the names of
    what is loaded.
    """

    folders: Mapping[str, Path]
    device: str
    section: str = "components"

    def load(
        self, components: Mapping[str, ComponentSpec | MetricSpec], others: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Load the models of those components or metrics that are models, each once.

        `others` are parameters by name that are no part of the spec.

        A model that cannot be used ends the run before anything is sampled. DeepSpeed would divide a model among the
        processes that is loaded after the trainer's config is made.

        Raises
        ------
        StudyError
            `SECTION.NAME: parameter: what is wrong; what to do`.
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
                raise StudyError(f"{self.section}.{name}: {error}") from error
