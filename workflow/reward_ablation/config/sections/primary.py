"""The primary question: what the study was made to find out, said before the first run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reward_ablation.config.base import Line, Name, Section

#: Metrics that every mode has, as `analysis.evaluation.answers.METRICS` computes them. A test holds the two together.
METRICS = (
    *("accuracy_strict", "accuracy_lenient", "accuracy_math_paper"),
    *("graders_differ", "correct_only_strict", "correct_only_math_paper"),
    *("format", "tokens", "truncated"),
)

Mode = Literal["greedy", "sampled"]


class ContrastOfArms(Section):
    """An arm, and the arm that it is compared with."""

    arm: Name
    against: Name | None = Field(None, description="Default: the baseline.")


class PrimaryQuestion(Section):
    """The data set, mode, metric and comparisons that the study is judged by; all others are exploratory."""

    dataset: Name | None = Field(None, description="An evaluation data set; default the first.")
    mode: Mode | None = Field(None, description="Default greedy, or sampled where evaluation.greedy is false.")
    metric: Line = Field("accuracy_strict", description="A metric of the evaluated models.")
    contrasts: list[ContrastOfArms] | None = Field(
        None, min_length=1, description="Comparisons; default each other arm against the baseline."
    )


def sizes(samples: int) -> list[int]:
    """The k of pass@k for n samples: powers of two below n, and n."""
    return [2**power for power in range(samples.bit_length()) if 2**power < samples] + [samples]


def metrics_of_mode(mode: Mode, samples: int) -> list[str]:
    """Metrics that a mode has; of `samples` sampled answers a question also pass@k and maj@n."""
    if mode == "greedy":
        return [*METRICS]
    return [*METRICS, *(f"pass@{size}" for size in sizes(samples)), f"maj@{samples}"]
