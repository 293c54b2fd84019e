"""Whole specs: everything that decides the result of a run, the supervised start, an evaluation or a scoring.

Planning (`study.specs_of_config`) makes them, and the command of each stage parses its own from `--spec`. `parts` has
their parts, and explains which fields the JSON of a spec contains.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from reward_ablation.config.base import Line, Section
from reward_ablation.config.sections.launch import DDP, Strategy
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.spec.parts import (
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
from reward_ablation.system.user_functions import in_a_file

Device = Literal["cpu", "cuda"]


class VllmSpec(Section):
    """Rollouts by vLLM. `gpus` is the number of GPUs of a server; 0 without a server."""

    mode: Literal["colocate", "server"]
    tensor_parallel_size: PositiveInt
    gpus: NonNegativeInt = 0


class Layout(Spec):
    """GPUs and processes of a run, and vLLM if it samples. What changes no result is left out, such as nodes."""

    gpus: NonNegativeInt
    processes: PositiveInt = 1  # on the CPU; on GPUs, a run has one process per GPU
    strategy: Strategy = DDP
    vllm: VllmSpec | None = None

    @property
    def process_count(self) -> int:
        """Number of processes that train the run."""
        return self.gpus or self.processes

    @property
    def has_server(self) -> bool:
        """Whether the run has a vLLM server of its own."""
        return self.vllm is not None and self.vllm.mode == "server"

    @property
    def server_gpus(self) -> int:
        """Number of GPUs of the run's vLLM server, in addition to the GPUs that the run trains on."""
        return self.vllm.gpus if self.vllm and self.gpus else 0

    @property
    def packages(self) -> list[str]:
        """Packages that the layout needs in addition to the packages of every run."""
        return ["vllm"] * (self.vllm is not None) + ["deepspeed"] * (self.strategy != DDP)


class SftSpec(Spec):
    """Everything that decides the supervised start, except the model that it starts from."""

    data: TrainDataSpec
    completion: list[str]
    training: dict[str, Any]
    lora: LoraSpec | None
    seed: NonNegativeInt
    prompt: PromptSpec
    device: Device
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


class EvaluateSpec(Spec):
    """Everything that decides a model's answers, except the model and the problems."""

    evaluation: EvaluationSpec
    prompt: PromptSpec
    device: Device
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


class ScoresSpec(Spec):
    """Everything that decides the scores of given answers by the study's own metrics. Ranges of metrics do not."""

    metrics: dict[str, MetricSpec]
    device: Device


class StudySpec(Spec):
    """What decides the results of all runs alike. A model is kept after each step that `keep_models` divides."""

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
    """Everything that decides the results of an arm's runs, except the seed. Its key is in the name of their folder."""

    weights: dict[str, Number]
    combine: CombineSpec | None = None

    @property
    def functions(self) -> list[str]:
        """Functions of the components, and modules that decide the numbers of some runs only.

        A user's function may compare completions, and so needs whole groups.
        """
        functions = [component.function for component in self.components.values()]
        of_user = any(map(in_a_file, functions))
        completing = ["training.core.whole_groups"] if of_user and self.cuts_groups else []
        return functions + completing + (self.combine.modules if self.combine else [])

    @property
    def cuts_groups(self) -> bool:
        """Whether a group has completions in several processes."""
        rows = BatchSizes.of(self.training, self.process_count).rows
        return bool(self.process_count > 1 and rows % self.training.get("num_generations", 8))  # 8: TRL's default

    @property
    def taking_part(self) -> list[str]:
        """The components that the advantage is made of: with a weight other than 0, or named by the combination."""
        named = self.combine.components if self.combine else []
        return [name for name, weight in self.weights.items() if weight or name in named]


class RunSpec(ArmSpec):
    """The spec of one run."""

    seed: NonNegativeInt


class ImportedSpec(Spec):
    """What is known of runs that were trained elsewhere. A component is None if only its scores are known."""

    imported: Line
    components: dict[str, ComponentSpec | None]
    training: dict[str, Any]
    weights: dict[str, Number]
    combine: None = None

    @property
    def functions(self) -> list[str]:
        """No code of this project trained the runs."""
        return []

    @property
    def taking_part(self) -> list[str]:
        """The components that the advantage is made of: those with a weight other than 0."""
        return [name for name, weight in self.weights.items() if weight]
