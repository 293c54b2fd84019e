"""The primary question: what the study is to find out, stated before the first run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reward_ablation.config.base import Line, Name, Section
from reward_ablation.config.sections.evaluation import OF_ALL_TASKS, OF_MATHEMATICS, Evaluation

Mode = Literal["greedy", "sampled"]


class ContrastOfArms(Section):
    """An arm, and the arm that it is compared with."""

    arm: Name
    against: Name | None = Field(None, description="Default: the baseline.")


class PrimaryQuestion(Section):
    """The data set, mode, metric and comparisons that the study is judged by; all others are exploratory."""

    dataset: Name | None = Field(None, description="An evaluation data set; default the first.")
    mode: Mode | None = Field(None, description="Default greedy, or sampled where evaluation.greedy is false.")
    metric: Line | None = Field(
        None,
        description="A metric of the evaluated models; default accuracy_strict, or else the first own metric.",
    )
    contrasts: list[ContrastOfArms] | None = Field(
        None, min_length=1, description="Comparisons; default: each other arm with the baseline."
    )


def sizes(samples: int) -> list[int]:
    """The k of pass@k for n samples: powers of two below n, and n."""
    return [2**power for power in range(samples.bit_length()) if 2**power < samples] + [samples]


def metrics_of_mode(evaluation: Evaluation, mode: Mode) -> list[str]:
    """Metrics of a mode. Sampled answers also have pass@k of the first metric, and maj@n in mathematics.

    A metric of the study's own without a range has no pass@k, because none of its scores counts as passed.
    """
    own, mathematics = [*evaluation.metrics], evaluation.answer_format is not None
    metrics = [*(OF_MATHEMATICS if mathematics else ()), *own, *OF_ALL_TASKS]
    if mode == "greedy":
        return metrics
    passes = mathematics or evaluation.metrics[own[0]].range is not None
    votes = [f"maj@{evaluation.samples}"] if mathematics else []
    return [*metrics, *(f"pass@{size}" for size in sizes(evaluation.samples) if passes), *votes]
