"""The primary question of a study, and the record of when it was declared.

A comparison that was named before the first run is a test; one that was picked among many afterwards is a finding to
test again. So `study.json` says which comparisons the study was made for, and since when that is so. The record is
there alone: where `study.json` is deleted, the question is declared anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from reward_ablation.config.sections.primary import Mode
from reward_ablation.study.canonical import key_of
from reward_ablation.study.run_folder import RECORD

#: Contrasts that a line names before it counts the rest.
MOST_NAMED = 4


class _Part(BaseModel):
    """A part of the record; keys of later versions are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Contrast(_Part):
    """An arm, and the arm that it is compared with."""

    arm: str
    against: str

    def __str__(self) -> str:
        return f"{self.arm} against {self.against}"


class Question(_Part):
    """The comparisons that a study is judged by, and on which data set, mode and metric."""

    dataset: str
    mode: Mode
    metric: str
    contrasts: list[Contrast]

    @property
    def key(self) -> str:
        """First 8 hex digits of a digest of the question; the order of the contrasts does not count."""
        content = self.model_dump(include={*Question.model_fields})
        content["contrasts"] = sorted([contrast["arm"], contrast["against"]] for contrast in content["contrasts"])
        return key_of(content)

    def __str__(self) -> str:
        named = _named(self.contrasts) or "no contrast, as there is one arm"
        return f"{self.metric} on {self.dataset} ({self.mode}): {named}"


class Declared(Question):
    """A question with the time when it was first recorded in the study's folder.

    Attributes
    ----------
    declared : str or None
        UTC, ISO 8601. None in a `study.json` of an earlier version, which declared nothing.
    digest : str
        The question's `key`.
    runs_then : int
        Finished runs in the study's folder at that time; 0 where the question came before the first run.
    """

    declared: str | None = None
    digest: str = ""
    runs_then: int = 0


class Primary(Declared):
    """The question of today. `earlier` are questions that it replaced after there were runs, the oldest first."""

    earlier: list[Declared] = []


def recorded(written: Any) -> Primary | None:
    """The declaration in the content of a `study.json`; None where it has none that can be read."""
    try:
        return Primary.model_validate(written["primary"])
    except (ValidationError, KeyError, TypeError):
        return None


def read_recorded(path: Path) -> Primary | None:
    """The declaration in a `study.json`; None where there is no such file, or none that can be read."""
    try:
        return recorded(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return None


def declared(question: Question, before: Primary | None, runs: Path) -> Primary:
    """The declaration to record: the earlier one while the question stays, else one of this moment.

    Parameters
    ----------
    question : Question
    before : Primary or None
        What is on record.
    runs : Path
        Folder of the study's runs. An earlier question that some of them were trained under is kept.
    """
    asked = question.model_dump()
    if before is not None and before.declared is not None and before.digest == question.key:
        return before.model_copy(update={"contrasts": question.contrasts})
    there = finished_runs(runs)
    earlier = [] if before is None else before.earlier
    if before is not None and before.declared is not None and there:
        earlier = [*earlier, Declared.model_validate(before.model_dump())]
    return Primary(**asked, declared=utc_now(), digest=question.key, runs_then=there, earlier=earlier)


def utc_now() -> str:
    """This moment in UTC, to the second: `2026-01-31T12:00:00Z`."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def finished_runs(folder: Path) -> int:
    """Number of finished runs below the folder of a study's runs, of this config or of others."""
    return sum(1 for _ in folder.glob(f"*/seed*/{RECORD}"))


def told(primary: Primary, coming: bool = False) -> str:
    """Since when a question is declared, in words: `declared 2026-01-31T12:00:00Z, before the first run`.

    `coming` is for a declaration that is not on record yet.
    """
    changed = bool(primary.runs_then and primary.earlier)
    verb = "changed" if changed else "declared"
    since = f"to be {verb} at the next start" if coming else f"{verb} {primary.declared}"
    if not primary.runs_then:
        return f"{since}, before the first run"
    runs = f"{primary.runs_then} {'run was' if primary.runs_then == 1 else 'runs were'} there"
    return f"{since}, after {runs}" + (f"; {changes(primary.earlier[-1], primary)}" if changed else "")


def changes(before: Question, after: Question) -> str:
    """What differs between two questions, in words."""
    parts = [
        f"{name} was {getattr(before, name)}"
        for name in ("dataset", "mode", "metric")
        if getattr(before, name) != getattr(after, name)
    ]
    for what, one, other in (("added", after, before), ("taken out", before, after)):
        of_other = {(contrast.arm, contrast.against) for contrast in other.contrasts}
        new = [contrast for contrast in one.contrasts if (contrast.arm, contrast.against) not in of_other]
        if new:
            parts.append(f"{what}: {_named(new)}")
    return "; ".join(parts)


def _named(contrasts: Sequence[Contrast]) -> str:
    """The first contrasts, and how many others there are; what all arms are compared with is named once.

    >>> _named([Contrast(arm=arm, against="a") for arm in "bc"])
    'b, c against a'
    """
    more = len(contrasts) - MOST_NAMED
    others = f" and {more} more" if more > 0 else ""
    if len({contrast.against for contrast in contrasts}) == 1:
        arms = ", ".join(contrast.arm for contrast in contrasts[:MOST_NAMED])
        return f"{arms}{others} against {contrasts[0].against}"
    return ", ".join(map(str, contrasts[:MOST_NAMED])) + others
