"""Metrics of a study: their source columns, their limits, and their names in figures and words.

Tables, figures, the report and the planning of studies ask it which metrics there are. It reads no answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import gt, le, lt
from typing import Any

from reward_ablation.analysis.statistics.limits import COUNT, ROUNDING, SHARE, UNLIMITED, Limits
from reward_ablation.analysis.study_file import StudyFile

#: Metrics of mathematics, each with the column that it is the mean of. The answers have most of these columns;
#: `question_means.measured` makes `graders_differ` and `correct_only_*`.
MATHEMATICS = {
    "accuracy_strict": "correct_strict",
    "accuracy_lenient": "correct_lenient",
    "accuracy_math_paper": "correct_math_paper",
    "graders_differ": "graders_differ",
    "correct_only_strict": "correct_only_strict",
    "correct_only_math_paper": "correct_only_math_paper",
    "format": "format",
}

#: Names of metrics in figures and words; other metrics have their own name with blanks for underscores.
NAMES = {
    "accuracy_strict": "strict accuracy",
    "accuracy_lenient": "lenient accuracy",
    "format": "format adherence",
    "tokens": "completion tokens",
}

#: Most metrics that have panels, beside tokens.
MOST_PANELS = 3


@dataclass(frozen=True)
class Metrics:
    """The metrics of a study."""

    mathematics: bool = True  # whether answers are judged as mathematics
    own: dict[str, Limits] = field(default_factory=dict)  # limits of the study's own metrics
    unmeasured: tuple[str, ...] = ()  # of tokens and truncated, those that the answers lack
    low_is_better: bool = False  # of the first own metric

    @property
    def verdicts(self) -> list[str]:
        """Columns of the answers that metrics are made of."""
        graded = ["answer", "correct_strict", "correct_lenient", "correct_math_paper", "format"]
        return [*(graded if self.mathematics else []), *self.of_all_tasks]

    @property
    def of_all_tasks(self) -> list[str]:
        """Metrics of each study, which imported answers may lack."""
        return [name for name in ("tokens", "truncated") if name not in self.unmeasured]

    @property
    def sources(self) -> dict[str, str]:
        """Metrics, each with the column that it is the mean of."""
        own = {name: name for name in self.own}
        return {**(MATHEMATICS if self.mathematics else {}), **own, **{name: name for name in self.of_all_tasks}}

    @property
    def passed(self) -> tuple[str, Callable[[Any], Any]] | None:
        """For pass@k: a column, and a test whether a value is as good as the best; None where pass@k has no meaning."""
        if self.mathematics:
            return "correct_strict", partial(le, 1.0)
        first = next(iter(self.own))
        limits = self.own[first]
        best = limits.low if self.low_is_better else limits.high
        room = ROUNDING * max(abs(best), min(limits.high - limits.low, 1.0))
        passes = partial(gt, best + room) if self.low_is_better else partial(lt, best - room)  # gt(bound, value)
        return (first, passes) if limits.finite else None

    @property
    def columns(self) -> list[str]:
        """Columns that `question_means` reads."""
        return ["mode", "problem_id", *self.verdicts, *self.own]

    @property
    def coded(self) -> list[str]:
        """The columns among `columns` that are read as categories."""
        return ["mode", "problem_id", *(["answer"] if "answer" in self.verdicts else [])]

    def limits(self, metric: str) -> Limits:
        """Lowest and highest value of a metric; also of pass@k and maj@n, which are shares."""
        return COUNT if metric == "tokens" else self.own.get(metric, SHARE)


def metrics_of_study(study: StudyFile) -> Metrics:
    """The metrics that a study declares."""
    own = {name: UNLIMITED if one.range is None else Limits(*one.range) for name, one in study.metrics.items()}
    low_is_better = not all(one.higher_is_better for one in [*study.metrics.values()][:1])
    return Metrics(study.mathematics, own, tuple(study.unmeasured), low_is_better)


def panels(study: StudyFile) -> dict[str, str]:
    """Metrics with a panel in figures, by name, with the labels of the axes: the main metric first, tokens last."""
    others = ["format"] if study.mathematics else []
    chosen = list(dict.fromkeys([study.main_metric, *others, *study.metrics]))[:MOST_PANELS]
    return {name: name_of(name) for name in [*chosen, "tokens"] if name not in study.unmeasured}


def name_of(metric: str) -> str:
    """A metric's name in figures and words."""
    return NAMES.get(metric, metric.replace("_", " "))
