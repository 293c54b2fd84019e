"""Reward models that serve as metrics: loaded once per job, on the device of the study, a GPU or the CPU.

The command of the rule `score` calls it before it scores. Where no metric is a reward model, it claims no GPU and
imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reward_ablation.models.reward_model_host import load_reward_models
from reward_ablation.models.verify import verify_model
from reward_ablation.rewards.scoring import RewardFunction, Scores
from reward_ablation.spec.run import Device, ScoresSpec
from reward_ablation.study.reward_models import FUNCTION
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import claim_gpus


def load_models(spec: ScoresSpec, others: Mapping[str, Mapping[str, Any]], folders: Mapping[str, Path]) -> None:
    """Load each metric that is a reward model once, after its files are verified; without such a metric, do nothing."""
    if not any(metric.function == FUNCTION for metric in spec.metrics.values()):
        return
    for folder in folders.values():
        verify_model(folder)
    load_reward_models(spec.metrics, others, folders, _torch_device(spec.device), "evaluation.metrics")


def _torch_device(device: Device) -> str:
    """Torch's name for a spec's device; claims a GPU of this machine that no other job has."""
    if device == "cpu":
        return "cpu"
    claim_gpus(1, "score")
    from reward_ablation.models.device import gpu_kind  # imports torch, which must not see the other GPUs

    kind = gpu_kind()
    if kind is None:
        raise StudyError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to score on the CPU")
    return kind


class CountsCut:
    """A reward model's function that also counts the inputs whose beginning was cut off."""

    def __init__(self, name: str, function: RewardFunction):
        self.name, self.function = name, function
        self.inputs = self.cut = 0

    def __call__(self, completions: list, **columns: Any) -> Scores:
        """Scores of a batch. The function logs the share of the inputs that were cut, as in training."""
        shares: dict[str, float] = {}
        try:
            scores = self.function(completions=completions, log_metric=shares.__setitem__, **columns)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's
                raise
            raise StudyError(
                f"evaluation.metrics.{self.name}: batch_size: the GPU's memory does not hold so many inputs; lower it"
            ) from error
        self.inputs += len(completions)
        self.cut += round(sum(shares.values()) * len(completions))
        return scores

    def tell(self) -> None:
        """Print how many inputs were cut, if any."""
        if self.cut:
            print(f"{self.name}: {self.cut:,} of {self.inputs:,} inputs were cut to max_length", flush=True)
