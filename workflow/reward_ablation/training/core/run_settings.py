"""The parts of a run's spec that the core reads, as protocols: the core does not import the spec's type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from reward_ablation.sampling.prompts import Prompt


class TrainData(Protocol):
    """What becomes of problems whose prompt is too long for the model: "refuse" or "drop"."""

    @property
    def too_long(self) -> str: ...


class Component(Protocol):
    """A reward component.

    `function` is a built-in function or `file.py:function`; `placement` names the tokens that the component's advantage
    acts on.
    """

    @property
    def function(self) -> str: ...

    @property
    def placement(self) -> str: ...


class Gradients(Protocol):
    """Which steps are measured, and which backward pass the run trains by."""

    @property
    def every(self) -> int: ...

    @property
    def whole(self) -> Sequence[int]: ...

    @property
    def backward(self) -> str: ...


class Vllm(Protocol):
    """How vLLM samples for a run."""

    @property
    def mode(self) -> str: ...

    @property
    def tensor_parallel_size(self) -> int: ...


class RunSettings(Protocol):
    """A run's spec. `training` uses TRL's names; `lora` uses peft's names, as pairs or a mapping."""

    @property
    def seed(self) -> int: ...

    @property
    def gpus(self) -> int: ...

    @property
    def data(self) -> TrainData: ...

    @property
    def prompt(self) -> Prompt: ...

    @property
    def components(self) -> Mapping[str, Component]: ...

    @property
    def weights(self) -> Mapping[str, float]: ...

    @property
    def training(self) -> Mapping[str, Any]: ...

    @property
    def lora(self) -> Any: ...

    @property
    def gradients(self) -> Gradients: ...

    @property
    def vllm(self) -> Vllm | None: ...
