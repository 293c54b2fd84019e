"""Parts of specs: the fields of each section of the config that decide a result.

One rule decides what a spec's JSON contains. A field without a default has been in all specs since the first version
and is always written: a part that extends a section of the config names it again, without the default. A later field is
left out where it has its default, so that earlier runs keep their keys. To change a default would change the meaning of
written specs; `tests/study/pinned_keys.json` records the defaults.

Planning makes them from the config (`study.specs_of_config`). `spec.run` has the whole specs.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from reward_ablation.config.base import Line, Section
from reward_ablation.config.config_errors import read_spec, validate_spec
from reward_ablation.config.sections.data import HubData, KnownSource, Prompt, Split, Switch, WordProblems
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.config.sections.model import DemoModel, HubModel
from reward_ablation.config.sections.training import Gradients, Lora
from reward_ablation.spec.canonical import dump, key_of, normalised
from reward_ablation.system.user_functions import in_a_file

#: Canonical JSON writes 1.0 as 1. A number that is read from it stays an integer, also for who compares the parts.
Number = int | float


class Spec(Section):
    """A whole spec: everything that decides a result, as one JSON text with a key."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The spec in an argument of a stage's command line. Raises the StudyError of `read`."""
        return cls.read(read_spec(text))

    @classmethod
    def read(cls, written: Any, where: str = "--spec") -> Self:
        """The spec of a JSON value; a StudyError (`where: key: what is wrong; what is allowed`) if it is none."""
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
    """A component. `code` is the digest of a user's function; `contents`, of files and folders that parameters name."""

    function: Line
    parameters: dict[str, Any]
    placement: Literal["all_tokens", "last_token", "answer_span"]
    code: str | None = None
    contents: dict[str, str] = Field(default_factory=dict)


class CombineSpec(Section):
    """A method of combination other than TRL's two. `components` are the components that its parameters name.

    `gram` is the Gram matrix that it uses (`combination.of_run.Source`), None if it uses no gradients. `bounds` are the
    known ranges of components, if the method asks for ranges. `code` is the digest of a user's method.
    """

    method: Line
    parameters: dict[str, Any]
    components: list[str] = Field(default_factory=list)
    gram: Literal["same_step", "previous", "averaged", "unbiased"] | None = None
    bounds: dict[str, list[Number]] = Field(default_factory=dict)
    code: str | None = None

    @property
    def title(self) -> str:
        """Name of the method, with "lagged" before it if it uses gradients of earlier steps."""
        return self.method if self.gram in (None, "same_step") else f"lagged {self.method}"

    @property
    def modules(self) -> list[str]:
        """Modules of this package that implement the method, without the package's name."""
        return ["combination.of_run"] + ([] if in_a_file(self.method) else [f"combination.methods.{self.method}"])


class MetricSpec(Section):
    """A metric of the study's own. `code` and `contents` have the same meaning as for a component."""

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
    """Steps that are measured: 1, each `every`-th after it (0: none), and `whole`, whose gradients are written, too."""

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
    """A local folder, identified by its content. Its path is in the spec by which it is fetched, not in a run's."""

    source: Literal["local"]
    content: str
    path: Line | None = None


class DemoModelSpec(DemoModel):
    """The demo's model. `content` is the digest of the code that makes it."""

    source: Literal["demo"]
    seed: int
    samples: int
    steps: int
    content: str


class HubDataSpec(HubData):
    """A known data set from the hub. With a `path` it would be a `LocalCopySpec`."""

    limit: int | None
    revision: str | None
    path: None


class LocalCopySpec(Section):
    """A known data set from a local file, identified by its content."""

    source: KnownSource
    split: Split
    limit: int | None
    revision: str | None
    content: str
    path: Line | None = None


class FileDataSpec(Section):
    """A user's own problems, identified by their content."""

    source: Literal["file"]
    limit: int | None
    columns: dict[str, Line | None]
    content: str
    path: Line | None = None


class WordProblemsSpec(WordProblems):
    """The demo's problems. `content` is the digest of the code that makes them."""

    limit: int | None
    seed: int
    content: str


ModelSpec = HubModelSpec | LocalModelSpec | DemoModelSpec
SourceSpec = HubDataSpec | LocalCopySpec | FileDataSpec | WordProblemsSpec


class DataSpec(Spec):
    """A prepared set of problems. `duplicates` are repeated questions. Without `golds`, answers may be missing."""

    source: SourceSpec
    duplicates: Switch
    golds: bool = True


class TrainDataSpec(DataSpec):
    """A set to train on, without questions of `apart_from`. Only a run's spec writes `too_long`, for long prompts."""

    overlap: Switch
    apart_from: list[SourceSpec] = Field(default_factory=list)
    too_long: Switch = "refuse"
