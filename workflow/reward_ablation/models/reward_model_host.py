"""The reward models of a process, which are loaded at once: those of a run, or of the study's own metrics.

A run calls it before its trainer is made, and the rule `score` before it scores. It is apart from `reward_model`, which
it imports only where there is a reward model to load.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from reward_ablation.config.secrets import with_variables
from reward_ablation.spec.parts import ComponentSpec, MetricSpec
from reward_ablation.study.reward_models import FUNCTION
from reward_ablation.system.errors import StudyError

#: Imported by its name, so that digests of runs and scores without a reward model do not cover it, and torch is not
#: loaded.
_MODULE = "reward_ablation.models.reward_model"


def load_reward_models(
    components: Mapping[str, ComponentSpec | MetricSpec],
    others: Mapping[str, Mapping[str, Any]],
    folders: Mapping[str, Path],
    device: str,
    section: str = "components",
) -> None:
    """Load the reward models among components or metrics, each once; `others` are parameters beside the spec."""
    # First, so that an unusable model ends the run before anything is sampled. After the trainer's config is made,
    # DeepSpeed would divide them among the processes.
    models = {
        name: {**part.parameters, **others.get(name, {})}
        for name, part in components.items()
        if part.function == FUNCTION
    }
    if not models:
        return
    host: Any = import_module(_MODULE)
    host.host_reward_models(device, folders)
    for name, parameters in models.items():
        try:
            host.open_reward_model({key: with_variables(value, os.environ) for key, value in parameters.items()})
        except StudyError as error:
            raise StudyError(f"{section}.{name}: {error}") from error
