"""The spec of a run: everything that decides the run's result, resolved and typed.

See `spec_parts` for what of a spec its JSON holds.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from reward_ablation.config.base import Section
from reward_ablation.config.sections.launch import DDP, Strategy
from reward_ablation.study.spec_parts import (
    CombineSpec,
    ComponentSpec,
    EvaluationSpec,
    GradientsSpec,
    LoraSpec,
    MetricSpec,
    ModelSpec,
    Number,
    PromptSpec,
    Spec,
    TrainDataSpec,
)

Device = Literal["cpu", "cuda"]


class VllmSpec(Section):
    """Rollouts by vLLM; `gpus` are those of a server."""

    mode: Literal["colocate", "server"]
    tensor_parallel_size: PositiveInt
    gpus: NonNegativeInt = 0


class Layout(Spec):
    """The device of a run, its processes, and what samples for it.

    Nodes, threads and resources are no part of it: they change no result.
    """

    gpus: NonNegativeInt
    processes: PositiveInt = 1  # on the CPU; with GPUs a run has one process for each
    strategy: Strategy = DDP
    vllm: VllmSpec | None = None

    @property
    def process_count(self) -> int:
        """Processes that train the run."""
        return self.gpus or self.processes

    @property
    def has_server(self) -> bool:
        """Whether the run has a vLLM server of its own."""
        return self.vllm is not None and self.vllm.mode == "server"

    @property
    def server_gpus(self) -> int:
        """GPUs of the run's vLLM server, beside those that the run trains on."""
        return self.vllm.gpus if self.vllm and self.gpus else 0

    @property
    def packages(self) -> list[str]:
        """Packages that the layout needs beside those of every run."""
        return ["vllm"] * (self.vllm is not None) + ["deepspeed"] * (self.strategy != DDP)


class SftSpec(Spec):
    """What decides the supervised start, but for the model that it starts from."""

    data: TrainDataSpec
    completion: list[str]
    training: dict[str, Any]
    lora: LoraSpec | None
    seed: NonNegativeInt
    prompt: PromptSpec
    device: Device
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


class EvaluateSpec(Spec):
    """What decides the answers of a model: how it is judged, and on which prompts."""

    evaluation: EvaluationSpec
    prompt: PromptSpec
    device: Device
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


class ScoresSpec(Spec):
    """What decides the scores of answers by the study's own metrics; the limits of a metric do not."""

    metrics: dict[str, MetricSpec]
    device: Device


class StudySpec(Spec):
    """What decides the results of all runs of a study alike."""

    model: ModelSpec
    data: TrainDataSpec
    prompt: PromptSpec
    components: dict[str, ComponentSpec]
    training: dict[str, Any]
    lora: LoraSpec | None
    gradients: GradientsSpec
    keep_models: NonNegativeInt = 0
    sft: SftSpec | None = None


class ArmSpec(StudySpec, Layout):
    """What decides the results of an arm's runs, but for the seed: its key is in their folder's name."""

    weights: dict[str, Number]
    combine: CombineSpec | None = None

    @property
    def functions(self) -> list[str]:
        """Functions of the components, and modules of the combination where it is not TRL's."""
        functions = [component.function for component in self.components.values()]
        return functions + (self.combine.modules if self.combine else [])

    @property
    def taking_part(self) -> list[str]:
        """The components that the advantage is made of: those with a weight, and those that the combination names."""
        named = self.combine.components if self.combine else []
        return [name for name, weight in self.weights.items() if weight or name in named]


class RunSpec(ArmSpec):
    """The spec of one run."""

    seed: NonNegativeInt
