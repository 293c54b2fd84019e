"""How the base model and the models of all runs, final or kept on the way, are judged: the key `evaluation`.

`config.study_config` has it in the config, and the evaluation's job reads its spec by the same classes.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat, PositiveFloat, field_validator, model_validator

from reward_ablation.config.base import Line, Name, Parameters, PositiveInt, Section, Seed

AnswerFormat = Literal["boxed", "hash", "final", "tag", "last_number"]

#: Metrics of mathematics, of studies that set `answer_format`.
OF_MATHEMATICS = (
    *("accuracy_strict", "accuracy_lenient", "accuracy_math_paper"),
    *("graders_differ", "correct_only_strict", "correct_only_math_paper"),
    "format",
)
#: Metrics of the answers to any task.
OF_ALL_TASKS = ("tokens", "truncated")
#: Columns of stored answers and of scores that are no metrics. A metric is a column beside them.
COLUMNS = (
    *("step", "problem_id", "mode", "sample", "completion", "answer", "status"),
    *("correct_strict", "correct_lenient", "correct_math_paper"),
)


class Metric(Section):
    """A function that judges the answers, with the signature of a reward; or a component that judges them."""

    function: Line | None = Field(None, description="As of a component; or name a component.")
    parameters: Parameters = Field(default_factory=dict, description="Keyword arguments of the function.")
    component: Name | None = Field(None, description="Take function and parameters of this component.")
    range: tuple[FiniteFloat, FiniteFloat] | None = Field(
        None, description="Lowest and highest score; with [0, 1] the metric is a share. Default: no limits."
    )
    higher_is_better: bool = True

    @field_validator("range")
    @classmethod
    def _ascending(cls, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is not None and ends[0] >= ends[1]:
            raise ValueError("write the lowest score first, then a higher score")
        return ends

    @model_validator(mode="after")
    def _one_source(self) -> Metric:
        if (self.function is None) == (self.component is None):
            raise ValueError("needs a function, or the name of a component, and not both")
        if self.component is not None and self.parameters:
            raise ValueError("parameters: the component's own are used; take these out, or name a function")
        return self


class Evaluation(Section):
    """How the base model and every run's final model are judged; the same for all arms."""

    answer_format: AnswerFormat | None = Field(
        None, description="Where the metrics of mathematics look for the answer; without it there are none."
    )
    metrics: dict[Name, Metric] = Field(default_factory=dict, description="The study's own metrics, by name.")
    greedy: bool = Field(True, description="One greedy answer a question.")
    samples: int = Field(0, ge=0, le=100_000, description="Sampled answers a question.")
    temperature: PositiveFloat = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    max_new_tokens: PositiveInt = 512
    batch_size: PositiveInt = 64
    seed: Seed = 0
    backend: Literal["auto", "transformers", "vllm"] = Field(
        "auto", description="auto: vLLM where it is installed and a GPU is present."
    )

    @field_validator("metrics")
    @classmethod
    def _names_are_free(cls, metrics: dict[str, Metric]) -> dict[str, Metric]:
        if taken := [name for name in metrics if name in OF_MATHEMATICS or name in OF_ALL_TASKS]:
            raise ValueError(f"there is a metric {taken[0]} already; choose another name")
        if taken := [name for name in metrics if name in COLUMNS]:
            raise ValueError(f"{taken[0]} is a column of every study's answers; choose another name")
        return metrics

    @model_validator(mode="after")
    def _something_to_do(self) -> Evaluation:
        if not self.greedy and self.samples == 0:
            raise ValueError("nothing to evaluate: set greedy: true or samples above 0")
        return self
