"""TRL's own config object, from the settings of a supervised start.

`fine_tune` trains by it. A start makes the object before any job, so that TRL refuses a wrong setting there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl import SFTConfig

from reward_ablation.training.around.checkpoints import KEPT_CHECKPOINTS
from reward_ablation.training.core.settings import defaults, trl_config


def sft_config(training: dict[str, Any], output_dir: Path, seed: int, on_cpu: bool) -> SFTConfig:
    """TRL's config of a supervised start. `seed` decides data order, adapters and dropout."""
    # TRL gets tokens with a mask, so that it cannot see by itself that there are prompts.
    own = {"save_total_limit": KEPT_CHECKPOINTS, "completion_only_loss": True}
    settings = {**defaults(on_cpu), **own, **training}
    return trl_config(SFTConfig, "sft.training", settings, output_dir, seed, on_cpu)
