"""What a study asks and how the answers are judged and shown: seeds, primary question, claims, statistics, figures.

`config.study_config` has these keys in the config, and `imported.config` some of them for runs trained elsewhere. The
seeds say which runs there are. No run's result depends on these keys: a change trains no finished run again.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from reward_ablation.config.base import Line, Name, Section, Seed
from reward_ablation.config.sections.evaluation import OF_ALL_TASKS, OF_MATHEMATICS, Evaluation

#: Alpha-spending functions: they divide the probability of a false decision among the looks, at which a study with
#: growing numbers of seeds may decide.
Spending = Literal["pocock", "obrien_fleming"]
Mode = Literal["greedy", "sampled"]
Direction = Literal["higher", "lower", "same"]


class SequentialSeeds(Section):
    """Numbers of seeds after which contrasts may be decided. A decided contrast gets no further seeds."""

    looks: list[Annotated[int, Field(gt=0, le=10_000)]] = Field(
        min_length=2, description="Numbers of seeds, ascending; the seeds are 0, 1, ..."
    )
    stop: Spending = Field("pocock", description="Lan and DeMets' function that divides the error among the looks.")

    @field_validator("looks")
    @classmethod
    def _ascending(cls, looks: list[int]) -> list[int]:
        if looks != sorted(set(looks)):
            raise ValueError("not ascending; each look needs more seeds than the look before, as in [2, 3, 5, 8]")
        if looks[0] < 2:
            raise ValueError("the first look has one seed, which cannot show how seeds differ; begin with 2 or more")
        return looks


def _kind(written: Any) -> str:
    return "sequential" if isinstance(written, dict | SequentialSeeds) else "list"


Seeds = Annotated[
    Annotated[list[Seed], Field(min_length=1), Tag("list")] | Annotated[SequentialSeeds, Tag("sequential")],
    Discriminator(_kind),
]


class ContrastOfArms(Section):
    """An arm, and the arm that it is compared with."""

    arm: Name
    against: Name | None = Field(None, description="Default: the baseline.")


class PrimaryQuestion(Section):
    """The data set, mode, metric and comparisons that the study is judged by; all others are exploratory."""

    dataset: Name | None = Field(None, description="An evaluation data set; default the first.")
    mode: Mode | None = Field(None, description="Default greedy, or sampled where evaluation.greedy is false.")
    metric: Line | None = Field(
        None, description="A metric of the evaluated models; default accuracy_strict, or else the first own metric."
    )
    contrasts: list[ContrastOfArms] | None = Field(
        None, min_length=1, description="Comparisons; default: each other arm with the baseline."
    )


def sizes(samples: int) -> list[int]:
    """The k of pass@k for n samples: powers of two below n, and n."""
    return [2**power for power in range(samples.bit_length()) if 2**power < samples] + [samples]


def metrics_of_mode(evaluation: Evaluation, mode: Mode) -> list[str]:
    """Metrics of a mode; sampled answers also have pass@k of the first one, and maj@n in mathematics (n samples)."""
    own, mathematics = [*evaluation.metrics], evaluation.answer_format is not None
    metrics = [*(OF_MATHEMATICS if mathematics else ()), *own, *OF_ALL_TASKS]
    if mode == "greedy":
        return metrics
    passes = mathematics or evaluation.metrics[own[0]].range is not None
    votes = [f"maj@{evaluation.samples}"] if mathematics else []
    return [*metrics, *(f"pass@{size}" for size in sizes(evaluation.samples) if passes), *votes]


class ClaimOnArms(Section):
    """A claim about one arm's metric minus another arm's. No run depends on it."""

    says: Line = Field(min_length=1, description="The claim in words.")
    source: Line | None = Field(None, description="Where the claim is made, such as a paper and its table.")
    metric: Line = Field(description="A metric of the evaluated models.")
    arm: Name
    against: Name | None = Field(
        None, description="What the arm is compared with: an arm, or base (before training); default: the baseline."
    )
    direction: Direction = Field(description="Whether the arm is claimed to be higher, lower, or the same.")
    margin: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="In the metric's units. higher, lower: the difference exceeds this; same: it stays within this.",
    )
    dataset: Name | None = Field(None, description="An evaluation data set; default: the primary question's.")
    mode: Mode | None = Field(None, description="Default: the primary question's.")

    @model_validator(mode="after")
    def _same_has_a_margin(self) -> ClaimOnArms:
        if self.direction == "same" and self.margin == 0:
            raise ValueError(
                "direction same needs a margin above 0: set margin to the smallest difference that matters"
            )
        return self


class Statistics(Section):
    """How the tables compute intervals and tests. No run depends on it."""

    seed_variance: Literal["moderated", "per_arm"] = Field(
        "moderated", description="Estimate how much seeds differ with help of the other arms, or from each arm alone."
    )
    equivalence_margin: float | None = Field(
        None, gt=0, lt=1, description="Smallest difference of shares that matters; default: no test of equivalence."
    )


class Figures(Section):
    """Which figures a study has, and which of them `all.pdf` holds. No run depends on it."""

    appendix: bool = Field(False, description="Add all other figures to all.pdf; the report has them anyway.")
    width: Literal["page", "column"] = Field(
        "page", description="Width of the figures for a paper: both columns (6.9 inches), or one (3.3 inches)."
    )

    gone: ClassVar = {
        "problems": "single problems have no figure any more; take the key out, and read each run's rollouts.parquet "
        "by problem_id and step"
    }
