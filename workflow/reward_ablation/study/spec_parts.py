"""Parts of specs: what of each section of the config decides a result.

One rule says what a spec's JSON holds. A field without a default has been in all specs since the first version and is
always written. A later field has a default, and is left out where it has its default: runs from before the field keep
their keys. A default that changes would change what a written spec means; `tests/study/pinned_keys.json` holds them.

A part that inherits from a section of the config gets the section's later fields with their defaults.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from reward_ablation.config.base import Line, Section
from reward_ablation.config.config_errors import read_spec, validate_spec
from reward_ablation.config.sections.data import HubData, KnownSource, Prompt, Split, WordProblems
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.config.sections.model import DemoModel, HubModel
from reward_ablation.config.sections.training import Gradients, Lora
from reward_ablation.study.canonical import dump, key_of, normalised

#: Canonical JSON writes 1.0 as 1, and a spec keeps a number as it is written.
Number = int | float
Switch = Literal["refuse", "drop"]


class Spec(Section):
    """A whole spec: what decides a result, as one JSON text with a key."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec of a stage's command line; StudyError as of `read`."""
        return cls.read(read_spec(text))

    @classmethod
    def read(cls, written: Any, where: str = "--spec") -> Self:
        """The spec of a JSON value; StudyError `where: key: what is wrong; what is allowed` where it is none."""
        spec: Self = validate_spec(cls, written, where)
        return spec

    def content(self) -> dict[str, Any]:
        """The spec as a JSON value, without defaults, with one spelling for equal numbers."""
        return without_defaults(self)

    @property
    def text(self) -> str:
        """Canonical JSON."""
        return dump(self.content())

    @property
    def key(self) -> str:
        """First 8 hex digits of the text's digest."""
        return key_of(self.content())


def without_defaults(part: Section) -> dict[str, Any]:
    """A spec, or a part of one, as a JSON value."""
    value: dict[str, Any] = normalised(part.model_dump(exclude_defaults=True))
    return value


class PromptSpec(Prompt):
    """How a question becomes a prompt."""

    system: str | None
    template: str
    chat: bool


class ComponentSpec(Section):
    """A component; `code` is the digest of a user's file and of the files that it imports.

    `contents` has digests of the files and folders that parameters name, by the parameter; where they lie is no part
    of a spec, nor are parameters that decide no score.

    In which arms a component is scored decides which specs it is a part of, and is no part of any spec.
    """

    function: Line
    parameters: dict[str, Any]
    placement: Literal["all_tokens", "last_token", "answer_span"]
    code: str | None = None
    contents: dict[str, str] = Field(default_factory=dict)

    @property
    def file(self) -> str | None:
        """The user's file of the function; None where the function is one of the package."""
        file, separator, _ = self.function.partition(":")
        return file if separator else None


class CombineSpec(Section):
    """A method of combination that is not TRL's; `code` is as of a component.

    `components` are those that its parameters name. `bounds` are the known ranges of the components that take
    part, where the method asks for them.
    """

    method: Line
    parameters: dict[str, Any]
    components: list[str] = Field(default_factory=list)
    gram: Literal["same_step", "previous", "averaged", "unbiased"] | None = None
    bounds: dict[str, list[Number]] = Field(default_factory=dict)
    code: str | None = None

    @property
    def file(self) -> str | None:
        """The user's file of the method; None where the method is one of the package."""
        file, separator, _ = self.method.partition(":")
        return file if separator else None

    @property
    def title(self) -> str:
        """The method; one that goes by gradients of earlier steps is called lagged."""
        return self.method if self.gram in (None, "same_step") else f"lagged {self.method}"

    @property
    def modules(self) -> list[str]:
        """Modules of the package behind the method, below the package."""
        return ["combination.of_run"] + ([] if self.file else [f"combination.methods.{self.method}"])


class MetricSpec(Section):
    """A metric of the study's own; `code` and `contents` are as of a component."""

    function: Line
    parameters: dict[str, Any]
    code: str | None = None
    contents: dict[str, str] = Field(default_factory=dict)


class LoraSpec(Lora):
    """Low-rank adapters."""

    r: int
    lora_alpha: Number
    lora_dropout: Number
    target_modules: Line | list[Line]


class GradientsSpec(Gradients):
    """Which steps are measured, and by which backward pass."""

    every: int
    whole: list[int]


class EvaluationSpec(Evaluation):
    """How models are judged."""

    greedy: bool
    samples: int
    temperature: float
    top_p: float
    max_new_tokens: int
    batch_size: int
    seed: int
    backend: Literal["auto", "transformers", "vllm"]


class HubModelSpec(HubModel):
    """A snapshot from the hub."""

    source: Literal["hub"]


class LocalModelSpec(Section):
    """A local folder, which counts by its content; where the folder lies is no part of a run's spec."""

    source: Literal["local"]
    content: str
    path: Line | None = None


class DemoModelSpec(DemoModel):
    """The demo's model; `content` is the digest of the code that makes it."""

    source: Literal["demo"]
    seed: int
    samples: int
    steps: int
    content: str


class HubDataSpec(HubData):
    """A known data set from the hub."""

    limit: int | None
    revision: str | None
    path: None


class LocalCopySpec(Section):
    """A known data set from a local file, which counts by its content."""

    source: KnownSource
    split: Split
    limit: int | None
    revision: str | None
    content: str
    path: Line | None = None


class FileDataSpec(Section):
    """A user's own problems, which count by their content."""

    source: Literal["file"]
    limit: int | None
    columns: dict[str, Line | None]
    content: str
    path: Line | None = None


class WordProblemsSpec(WordProblems):
    """The demo's problems; `content` is the digest of the code that makes them."""

    limit: int | None
    seed: int
    content: str


ModelSpec = HubModelSpec | LocalModelSpec | DemoModelSpec
SourceSpec = HubDataSpec | LocalCopySpec | FileDataSpec | WordProblemsSpec


class DataSpec(Spec):
    """A prepared set of problems; without `golds`, problems without an answer are kept, and no answer is checked."""

    source: SourceSpec
    duplicates: Switch
    golds: bool = True


class TrainDataSpec(DataSpec):
    """What is trained on; `apart_from` are the sets whose questions are dropped from training."""

    overlap: Switch
    apart_from: list[SourceSpec] = Field(default_factory=list)
